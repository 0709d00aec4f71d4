// Arrays for NumPy: its .npy format, version 1.0.
#pragma once

#include <seppo/nn/io/atomic_file.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace examples {

// `type` as NumPy writes it: "<f4". The callback writes the values.
inline void write_npy(const std::filesystem::path& path, std::string_view type, std::span<const std::int64_t> sizes,
                      seppo::FunctionRef<void(seppo::File&)> write_values) {
  static_assert(std::endian::native == std::endian::little);
  std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : sizes) header += std::to_string(size) + ",";
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // with the newline, a multiple of 64 bytes
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += {static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  start += header;
  seppo::replace_atomically(path, [&](seppo::File& file) {
    file.write(start.data(), start.size());
    write_values(file);
  });
}

}  // namespace examples
