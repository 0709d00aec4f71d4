// The header of a safetensors file: read event by event into a checked layout, and written.
#include "safetensors_header.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"
#include "json.h"

#include <set>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTensors = 65536;
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxRank = 8;
constexpr std::uint64_t kMaxInteger = std::uint64_t{1} << 53;

constexpr std::uint64_t kMaxBits = 8 * kMaxInteger;

// Bits of an element; 0 for an unknown dtype.
std::uint64_t bits_of(std::string_view dtype) {
  static const std::map<std::string_view, std::uint64_t> bits{
      {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"U16", 16},        {"I16", 16},    {"U32", 32},
      {"I32", 32},    {"U64", 64},    {"I64", 64},    {"F16", 16},        {"BF16", 16},   {"F32", 32},
      {"F64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"F8_E5M2FNUZ", 8},
      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64}};
  const auto found = bits.find(dtype);
  return found == bits.end() ? 0 : found->second;
}

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName) return false;
  while (!name.empty()) {
    const std::size_t length = character_length(name);  // 0 if it is not UTF-8
    const bool is_control = static_cast<unsigned char>(name[0]) < 0x20 || name[0] == 0x7F;
    if (length == 0 || is_control) return false;
    name.remove_prefix(length);
  }
  return true;
}

// The header's layout, refused at the first byte that breaks a rule.
class HeaderReader : public JsonEvents {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;

  bool start_object(std::size_t) override {
    const Place at = std::exchange(place_, Place::header);
    if (at == Place::start) return true;
    if (at != Place::header) refuse("an object is out of place");
    tensor_ = {.name = key_, .dtype = {}, .shape = {}};
    fields_.clear();
    return enter(key_ == "__metadata__" ? Place::metadata : Place::tensor);
  }
  bool key(string_t& key) override {
    key_ = key;
    if (place_ == Place::header) {
      if (!is_name(key))
        refuse("this tensor's name is empty, longer than " + std::to_string(kMaxName) +
               " bytes, or has control characters");
      if (!names_.insert(key).second) refuse("this name is there twice");
      if (names_.size() > kMaxTensors + 1) refuse("there are more than " + std::to_string(kMaxTensors) + " tensors");
    } else if (place_ == Place::metadata) {
      if (metadata.contains(key)) refuse("this metadata is there twice");
      if (metadata.size() >= kMaxTensors) refuse("there are more than " + std::to_string(kMaxTensors) + " metadata");
    } else if ((key != "dtype" && key != "shape" && key != "data_offsets") || !fields_.try_emplace(key).second) {
      refuse("dtype, shape and data_offsets are allowed, once each");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::tensor) end_tensor();
    return enter(place_ == Place::header ? Place::start : Place::header);
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") refuse("a list is out of place");
    return enter(Place::list);
  }
  bool end_array() override {
    if (key_ == "data_offsets" && fields_[key_].size() != 2) refuse("data_offsets is not a pair");
    return enter(Place::tensor);
  }
  void value(json&& value) override {
    if (place_ == Place::metadata) {
      if (!value.is_string()) refuse("this metadata is not a string");
      metadata[key_] = value.get<std::string>();
    } else if (place_ == Place::tensor && key_ == "dtype") {
      tensor_.dtype = value.is_string() ? value.get<std::string>() : "";
      if (bits_of(tensor_.dtype) == 0) refuse("dtype " + printable_json(value) + " is not one of the format's");
    } else if (place_ == Place::list) {
      std::vector<std::int64_t>& list = fields_[key_];
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxInteger)
        refuse(key_ + ": " + printable_json(value) + " is not an integer in 0..2^53");
      if (list.size() == (key_ == "shape" ? kMaxRank : 2)) refuse(key_ + " has too many numbers");
      list.push_back(value.get<std::int64_t>());
    } else if (place_ != Place::header || key_ != "__metadata__" || !value.is_null()) {  // null: there are none
      refuse(printable_json(value) + " is out of place");
    }
  }
  [[noreturn]] void refuse(const std::string& why) override {
    const std::string& name = place_ == Place::header ? key_ : tensor_.name;
    fail<FormatError>(file_, ": header byte ", 8 + offset(), place_ == Place::start ? "" : ": tensor ",
                      place_ == Place::start ? "" : std::string(printable(name)), ": ", why);
  }

 private:
  enum class Place { start, header, metadata, tensor, list };
  bool enter(Place place) {
    place_ = place;
    return true;
  }
  void end_tensor() {
    if (fields_.size() < 3) refuse("dtype, shape or data_offsets is missing");
    std::uint64_t bits = bits_of(tensor_.dtype);
    tensor_.shape = std::move(fields_["shape"]);
    for (const std::int64_t size : tensor_.shape) {
      const auto n = static_cast<std::uint64_t>(size);
      if (n != 0 && bits > kMaxBits / n) refuse("the shape has too many elements");
      bits *= n;
    }
    if (bits % 8 != 0) refuse("the " + std::to_string(bits) + " bits of its shape are no whole bytes");
    const std::uint64_t bytes = bits / 8;
    tensor_.begin = static_cast<std::uint64_t>(fields_["data_offsets"][0]);
    tensor_.end = static_cast<std::uint64_t>(fields_["data_offsets"][1]);
    if (tensor_.begin > tensor_.end || tensor_.bytes() != bytes)
      refuse("data_offsets " + std::to_string(tensor_.begin) + ".." + std::to_string(tensor_.end) +
             " do not hold the " + std::to_string(bytes) + " bytes of its shape");
    tensors.push_back(std::move(tensor_));
  }

  std::string_view file_;
  Place place_ = Place::start;
  std::string key_;
  std::set<std::string, std::less<>> names_;
  TensorInfo tensor_;
  std::map<std::string, std::vector<std::int64_t>> fields_;  // the tensor's lists of numbers
};

// The text of a header. What the reader refuses must not replace a good file.
std::string readable_text(const json& header) {
  try {
    std::string text = header.dump();
    check<FormatError>(text.size() < kMaxHeader, text.size(), " bytes of header are too large");
    HeaderReader("the header").read(text);
    return text;
  } catch (const json::exception& e) {
    fail<ArgumentError>("safetensors: metadata: ", e.what(), "; nothing was written");
  } catch (const FormatError& e) {
    fail<ArgumentError>("safetensors: ", e.what(), "; nothing was written");
  }
}

}  // namespace

SafeTensorsHeader read_header(std::string_view file, const std::string& text) {
  HeaderReader reader(file);
  reader.read(text);
  return {std::move(reader.metadata), std::move(reader.tensors)};
}

std::string header_text(const std::map<std::string, std::string>& metadata, std::span<const TensorInfo> tensors) {
  JsonTree header{json::object()};
  header.value["__metadata__"] = metadata;
  for (const TensorInfo& t : tensors) {
    const bool is_new = is_name(t.name) && !header.value.contains(t.name);
    check<ArgumentError>(is_new, "safetensors: the name ", printable(t.name),
                         " is not allowed, or there twice; nothing was written");
    json& entry = header.value[t.name] = json::object();
    entry["dtype"] = t.dtype;
    entry["shape"] = t.shape;
    entry["data_offsets"] = {t.begin, t.end};
  }
  return readable_text(header.value);
}

std::uint64_t bytes_of_shape(const TensorInfo& tensor) {
  std::uint64_t bits = bits_of(tensor.dtype);
  for (const std::int64_t size : tensor.shape) bits *= static_cast<std::uint64_t>(size);
  return bits / 8;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
