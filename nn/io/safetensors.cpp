// Safetensors: a reader that checks the whole header before it allocates a tensor, and a writer.
#include "safetensors.h"

#include "../../autograd/core/check.h"
#include "../data/text.h"
#include "atomic_file.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace seppo::inline SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

constexpr std::size_t kMaxHeader = std::size_t{16} << 20;
constexpr std::size_t kMaxTensors = 65536;
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxRank = 8;
constexpr std::uint64_t kMaxInteger = std::uint64_t{1} << 53;

// nlohmann-json keeps the last of equal keys and recurses on nested input; both are refused here.
json parse_header(const std::string& file, const std::string& text) {
  check<FormatError>(!text.empty() && text[0] == '{', file, ": the header is not a JSON object");
  // The parser would take a NUL for the end.
  check<FormatError>(text.find('\0') == std::string::npos, file, ": the header contains a NUL");
  std::vector<std::set<std::string>> keys;
  try {
    return json::parse(text, [&](int depth, json::parse_event_t event, json& value) {
      check<FormatError>(depth <= 4, file, ": the header nests deeper than the format allows");
      if (event == json::parse_event_t::object_start) keys.emplace_back();
      if (event == json::parse_event_t::object_end) keys.pop_back();
      if (event == json::parse_event_t::key)
        check<FormatError>(keys.back().insert(value.get<std::string>()).second, file, ": the header names '",
                           printable(value.get<std::string>()), "' twice");
      return true;
    });
  } catch (const json::exception& e) {
    fail<FormatError>(file, ": the header is not valid JSON (", printable(e.what(), 100), ")");
  }
}

std::uint64_t plain_integer(const std::string& where, const json& value) {
  check<FormatError>(value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxInteger, where, ": ",
                     printable(value.dump(-1, ' ', true)), " is not an integer in 0..2^53");
  return value.get<std::uint64_t>();
}

struct Placed {
  StoredTensor tensor;
  std::uint64_t begin, end;
};

Placed parse_tensor(const std::string& where, const std::string& name, const json& entry) {
  check<FormatError>(entry.is_object() && entry.size() == 3 && entry.contains("dtype") && entry.contains("shape") &&
                         entry.contains("data_offsets"),
                     where, ": must have dtype, shape, data_offsets and nothing else");
  const json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  check<FormatError>(dtype.is_string() && (dtype == "F32" || dtype == "F64"), where, ": dtype ",
                     printable(dtype.dump(-1, ' ', true)), " is not \"F32\" or \"F64\"");
  check<FormatError>(shape.is_array() && shape.size() <= kMaxRank, where, ": shape is not a list of at most ", kMaxRank,
                     " sizes");
  check<FormatError>(offsets.is_array() && offsets.size() == 2, where, ": data_offsets is not a pair");

  // Computed before the aggregate: g++ 12 destroys a nested one twice when a later initialiser throws.
  const std::uint64_t begin = plain_integer(where, offsets[0]), end = plain_integer(where, offsets[1]);
  Placed placed{{name, dtype.get<std::string>(), {}, {}}, begin, end};
  std::uint64_t bytes = dtype == "F32" ? 4 : 8;
  for (const json& size : shape) {
    const std::uint64_t n = plain_integer(where, size);
    placed.tensor.shape.push_back(static_cast<std::int64_t>(n));
    check<FormatError>(n == 0 || bytes <= kMaxInteger / n, where, ": the shape has too many elements");
    bytes *= n;
  }
  check<FormatError>(placed.begin <= placed.end && placed.end - placed.begin == bytes, where, ": data_offsets ",
                     placed.begin, "..", placed.end, " do not hold the ", bytes, " bytes of its shape");
  return placed;
}

}  // namespace

SafeTensors read_safetensors(const std::filesystem::path& path) {
  const std::string name = printable_path(path);
  File file(path, File::Open::reading);
  const std::size_t size = file.size();
  check<FormatError>(size >= 8, name, ": ", size, " bytes are too short for a safetensors file");
  std::uint64_t header_size = 0;
  file.read(reinterpret_cast<std::byte*>(&header_size), 8);
  check<FormatError>(header_size >= 2 && header_size <= size - 8 && header_size <= kMaxHeader, name,
                     ": not a safetensors file, or truncated: its first 8 bytes announce a header of ", header_size,
                     " bytes in a file of ", size);
  std::string text(header_size, '\0');
  file.read(reinterpret_cast<std::byte*>(text.data()), header_size);
  const json header = parse_header(name, text);
  check<FormatError>(header.size() <= kMaxTensors, name, ": more than ", kMaxTensors, " tensors");

  SafeTensors content;
  std::vector<Placed> placed;
  for (const auto& [key, value] : header.items()) {
    if (key == "__metadata__") {
      check<FormatError>(value.is_object(), name, ": __metadata__ is not an object");
      for (const auto& [field, entry] : value.items()) {
        check<FormatError>(entry.is_string(), name, ": metadata '", printable(field), "' is not a string");
        content.metadata[field] = entry.get<std::string>();
      }
      continue;
    }
    const bool clean =
        std::none_of(key.begin(), key.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    check<FormatError>(!key.empty() && key.size() <= kMaxName && clean, name, ": tensor name '", printable(key),
                       "' is empty, longer than ", kMaxName, " bytes, or has control characters");
    placed.push_back(parse_tensor(name + ": tensor " + printable(key), key, value));
  }

  // The whole layout is checked before any tensor's memory is allocated.
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t end = 0;
  for (const Placed& p : placed) {
    check<FormatError>(p.begin == end, name, ": tensor ", printable(p.tensor.name), " begins at byte ", p.begin,
                       " of the data, where ", end, " is due");
    end = p.end;
  }
  check<FormatError>(end == size - 8 - header_size, name, ": the tensors end at byte ", end,
                     " of the data, the file at ", size - 8 - header_size, ": truncated, or bytes appended");
  for (Placed& p : placed) {
    p.tensor.bytes.resize(p.end - p.begin);
    file.read(p.tensor.bytes.data(), p.tensor.bytes.size());
    content.tensors.push_back(std::move(p.tensor));
  }
  return content;
}

void write_safetensors(const std::filesystem::path& path, const SafeTensors& content) {
  json header = json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::uint64_t offset = 0;
  for (const StoredTensor& t : content.tensors) {
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {offset, offset + t.bytes.size()}}};
    offset += t.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors aligned to 8 bytes
  const std::uint64_t header_size = text.size();
  replace_atomically(path, [&](File& file) {
    file.write(&header_size, sizeof header_size);
    file.write(text.data(), text.size());
    for (const StoredTensor& t : content.tensors) file.write(t.bytes.data(), t.bytes.size());
  });
}

}  // namespace seppo::inline SEPPO_ABI
