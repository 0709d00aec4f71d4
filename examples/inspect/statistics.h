// The numbers of safetensors files, of any dtype, and their statistics.
#pragma once

#include <seppo/nn/io/safetensors.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace inspect {

// Whether elements of the type are read here: not floats of 8 bits and fewer, nor complex numbers.
bool has_numbers(std::string_view dtype);

// The elements as double; whole numbers beyond 2^53 are rounded. Throws seppo::FormatError unless has_numbers().
std::vector<double> numbers_of(std::string_view dtype, std::span<const std::byte> bytes);

// Calls f(bytes) for a tensor piece by piece; each piece consists of whole elements.
void for_each_piece(const seppo::SafeTensorsFile& file, const seppo::TensorInfo& tensor,
                    seppo::FunctionRef<void(std::span<const std::byte>)> f);

struct Statistics {
  double mean = 0, deviation = 0, least = 0, most = 0;  // of the finite elements; the population's deviation
  std::uint64_t elements = 0, zeros = 0, not_finite = 0;
};
// Only the number of elements, unless the type has_numbers().
Statistics statistics_of(const seppo::SafeTensorsFile& file, const seppo::TensorInfo& tensor);

// NumPy's name for a dtype, or for float32 if it is BF16; empty if it has none.
std::string_view numpy_type(std::string_view dtype);

}  // namespace inspect
