// The header is read value by value, each from bytes that are there; blocks are decoded a piece at a time.
#include "gguf.h"

#include "gguf_blocks.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

constexpr std::uint64_t kMostHeader = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostNames = 65536;
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 21;  // in lists
constexpr std::uint64_t kMostName = 512;
constexpr std::uint64_t kMostSizes = 4;
constexpr std::uint64_t kMostAlignment = std::uint64_t{1} << 20;

enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };

// The header's bytes, from the beginning of the file.
class Header {
 public:
  Header(const File& file, const std::string& name, std::uint64_t size) : file_(file), name_(name), size_(size) {}

  std::uint64_t at() const { return at_; }

  void take(void* to, std::uint64_t size) {
    const std::uint64_t most = std::min(size_, kMostHeader);
    check<FormatError>(size <= most - at_, name_, ": the header at byte ", at_, " needs ", size,
                       " bytes more; it ends at ", most,
                       size_ > kMostHeader ? ", the most that is read" : ", truncated");
    auto* out = static_cast<std::byte*>(to);
    while (size > 0) {
      if (at_ == end_) refill();
      const std::uint64_t piece = std::min(size, end_ - at_);
      std::memcpy(out, buffer_.data() + (buffer_.size() - (end_ - at_)), piece);
      out += piece;
      at_ += piece;
      size -= piece;
    }
  }
  template <class T>
  T number() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  std::string text(std::uint64_t most) {
    const auto size = number<std::uint64_t>();
    check<FormatError>(size <= most && size <= size_ - at_, name_, ": the text at byte ", at_, " has ", size,
                       " bytes, too many");
    std::string text(size, '\0');
    take(text.data(), size);
    return text;
  }
  std::uint64_t count(const char* what) {
    const auto count = number<std::uint64_t>();
    check<FormatError>(count <= kMostNames, name_, ": ", count, " ", what, " are more than ", kMostNames);
    return count;
  }

  json value(ValueType type) {
    switch (type) {
      case ValueType::u8:
        return number<std::uint8_t>();
      case ValueType::i8:
        return signed_number(number<std::int8_t>());
      case ValueType::u16:
        return number<std::uint16_t>();
      case ValueType::i16:
        return signed_number(number<std::int16_t>());
      case ValueType::u32:
        return number<std::uint32_t>();
      case ValueType::i32:
        return signed_number(number<std::int32_t>());
      case ValueType::f32:
        return as_decimal(number<float>());
      case ValueType::boolean:
        return number<std::uint8_t>() != 0;
      case ValueType::text:
        return text(kMostHeader);
      case ValueType::list:
        return list();
      case ValueType::u64:
        return number<std::uint64_t>();
      case ValueType::i64:
        return signed_number(number<std::int64_t>());
      case ValueType::f64:
        return number<double>();
    }
    fail<FormatError>(name_, ": byte ", at_ - sizeof type, ": there is no type ", static_cast<std::uint32_t>(type),
                      " of metadata");
  }

 private:
  // As JSON has it: without a sign if it is not negative.
  static json signed_number(std::int64_t value) {
    if (value < 0) return value;
    return static_cast<std::uint64_t>(value);
  }

  json list() {
    const auto type = ValueType{number<std::uint32_t>()};
    const auto size = number<std::uint64_t>();
    check<FormatError>(type != ValueType::list, name_, ": byte ", at_, ": a list of lists");
    check<FormatError>(size <= kMostValues - values_, name_, ": byte ", at_, ": a list of ", size,
                       " values; lists have at most ", kMostValues, " together");
    values_ += size;
    json all = json::array();
    for (std::uint64_t i = 0; i < size; ++i) all.push_back(value(type));
    return all;
  }

  void refill() {
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(1 << 16, size_ - at_)));
    file_.read_at(at_, buffer_.data(), buffer_.size());
    end_ = at_ + buffer_.size();
  }

  const File& file_;
  const std::string& name_;
  std::uint64_t size_, at_ = 0, end_ = 0;  // the buffer ends at end_
  std::vector<std::byte> buffer_;
  std::uint64_t values_ = 0;
};

void check_magic(Header& header, const std::string& name) {
  char magic[4];
  header.take(magic, 4);
  check<FormatError>(std::string_view(magic, 4) == "GGUF", name, ": is no GGUF file");
  const auto version = header.number<std::uint32_t>();
  check<FormatError>(version == 2 || version == 3, name, ": version ", version, " of GGUF; 2 and 3 are read");
}

json read_metadata(Header& header, const std::string& name, std::uint64_t count) {
  json all = json::object();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = header.text(kMostName);
    check<FormatError>(!all.contains(key), name, ": the metadata ", printable(key), " is there twice");
    all[key] = header.value(ValueType{header.number<std::uint32_t>()});
  }
  return all;
}

const GgufType& type_of(std::uint32_t id, const std::string& where) {
  const GgufType* const found = gguf_type(id);
  check<FormatError>(found && found->decode, where, " is of type ", found ? found->name : std::to_string(id), "; ",
                     gguf_types_that_are_read(), " are read");
  return *found;
}

// A tensor whose offset counts from the first one's.
GgufTensor read_tensor(Header& header, const std::string& name, std::uint64_t size) {
  GgufTensor tensor;
  tensor.name = header.text(kMostName);
  const std::string where = name + ": tensor " + std::string(printable(tensor.name));
  const auto sizes = header.number<std::uint32_t>();
  check<FormatError>(sizes >= 1 && sizes <= kMostSizes, where, " has ", sizes, " sizes, not 1 to ", kMostSizes);
  std::uint64_t numel = 1;
  for (std::uint32_t i = 0; i < sizes; ++i) {
    const auto one = header.number<std::uint64_t>();
    check<FormatError>(one > 0 && one <= 4 * size / numel, where, " has more numbers than the file");
    numel *= one;
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(one));
  }
  const GgufType& type = type_of(header.number<std::uint32_t>(), where);
  tensor.type = type.name;
  const auto columns = static_cast<std::uint64_t>(tensor.shape.back());
  check<FormatError>(columns % type.block == 0, where, ": rows of ", columns, " numbers are not blocks of ",
                     type.block);
  tensor.bytes = numel / type.block * type.bytes;
  tensor.offset = header.number<std::uint64_t>();
  return tensor;
}

std::uint64_t alignment_of(const json& metadata, const std::string& name) {
  const json value = metadata.value("general.alignment", json(std::uint64_t{32}));
  const bool is_number = value.is_number_unsigned();
  const std::uint64_t alignment = is_number ? value.get<std::uint64_t>() : 0;
  check<FormatError>(std::has_single_bit(alignment) && alignment <= kMostAlignment, name,
                     ": general.alignment is no power of two up to ", kMostAlignment);
  return alignment;
}

// They lie within the file, none over another.
void check_layout(const std::vector<GgufTensor>& tensors, const std::string& name, std::uint64_t begin,
                  std::uint64_t size) {
  std::vector<const GgufTensor*> sorted;
  for (const GgufTensor& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, [](const GgufTensor* tensor) { return tensor->offset; });
  std::uint64_t end = begin;
  for (const GgufTensor* tensor : sorted) {
    const bool fits = tensor->offset >= end && tensor->bytes <= size && tensor->offset <= size - tensor->bytes;
    check<FormatError>(fits, name, ": tensor ", printable(tensor->name), ": ", tensor->bytes, " bytes from ",
                       tensor->offset, " on are not between ", end, ", where the one before ends, and ", size,
                       ", where the file does");
    end = tensor->offset + tensor->bytes;
  }
}

}  // namespace

bool gguf_ends_text(std::string_view token) {
  static const std::set<std::string_view> all{"<|eot_id|>",
                                              "<|fim_pad|>",
                                              "<|repo_name|>",
                                              "<|file_sep|>",
                                              "<|im_end|>",
                                              "<|end|>",
                                              "<|return|>",
                                              "<|call|>",
                                              "<|flush|>",
                                              "<|calls|>",
                                              "<end_of_turn>",
                                              "<|endoftext|>",
                                              "</s>",
                                              "<|eom_id|>",
                                              "<EOT>",
                                              "_<EOT>",
                                              "[EOT]",
                                              "[EOS]",
                                              "<|end_of_text|>",
                                              "<eos>",
                                              "<turn|>",
                                              "[e~[",
                                              "<end_of_utterance>",
                                              "<|tool_response>",
                                              "<\uff5cend\u2581of\u2581sentence\uff5c>"};
  return all.contains(token);
}

double as_decimal(float x) {
  if (!std::isfinite(x)) return x;
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), x);
  double value = x;
  std::from_chars(text.data(), end, value);
  return value;
}

std::size_t GgufTensor::numel() const {
  std::size_t all = 1;
  for (const std::int64_t size : shape) all *= static_cast<std::size_t>(size);
  return all;
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : GgufSource(std::string(printable_path(path))),
      file_(path, File::Open::reading),
      path_(path),
      size_(file_.size()) {
  Header header(file_, name_, size_);
  check_magic(header, name_);
  const std::uint64_t tensors = header.count("tensors");
  const std::uint64_t values = header.count("metadata");
  metadata_ = read_metadata(header, name_, values);
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    tensors_.push_back(read_tensor(header, name_, size_));
    check<FormatError>(names.insert(tensors_.back().name).second, name_, ": tensor ", printable(tensors_.back().name),
                       " is there twice");
  }
  const std::uint64_t alignment = alignment_of(metadata_, name_);
  const std::uint64_t begin = (header.at() + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : tensors_) {
    check<FormatError>(tensor.offset <= size_, name_, ": tensor ", printable(tensor.name), " begins beyond the file");
    tensor.offset += begin;
  }
  check_layout(tensors_, name_, begin, size_);
}

const GgufTensor* GgufSource::find(const std::string& tensor) const {
  const auto found = std::ranges::find(tensors_, tensor, &GgufTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

void GgufSource::check_numbers(const GgufTensor& tensor, std::size_t first, std::size_t count) const {
  check(first <= tensor.numel() && count <= tensor.numel() - first, name_, ": tensor ", printable(tensor.name), " has ",
        tensor.numel(), " numbers, not ", count, " from ", first, " on");
}

void GgufFile::read(const GgufTensor& tensor, std::span<real> to, std::size_t first) const {
  constexpr std::uint64_t kBlocks = 1 << 15;  // at a time
  check_numbers(tensor, first, to.size());
  const GgufType& type = *gguf_type(tensor.type);
  check(first % type.block == 0 && to.size() % type.block == 0, name_, ": tensor ", printable(tensor.name),
        " is of blocks of ", type.block, " numbers: ", to.size(), " from ", first, " on are not whole blocks");
  const std::uint64_t begin = tensor.offset + first / type.block * type.bytes;
  const std::uint64_t bytes = to.size() / type.block * type.bytes;
  std::vector<std::byte> piece;
  real* out = to.data();
  for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(kBlocks * type.bytes, bytes - at)));
    file_.read_at(begin + at, piece.data(), piece.size());
    type.decode(piece, out);
    out += piece.size() / type.bytes * type.block;
  }
  check<FormatError>(std::ranges::all_of(to, [](real x) { return std::isfinite(x); }), name_, ": tensor ",
                     printable(tensor.name), " has values that are not finite");
}

}  // namespace SEPPO_ABI
}  // namespace seppo
