// Safetensors: the header read event by event into a checked layout, and a writer.
#include "safetensors.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"
#include "digest.h"
#include "json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

constexpr std::size_t kMaxHeader = std::size_t{16} << 20;
constexpr std::size_t kMaxTensors = 65536;
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxRank = 8;
constexpr std::uint64_t kMaxInteger = std::uint64_t{1} << 53;

constexpr const char* kFormat = "seppo.format";
constexpr const char* kDigest = "seppo.digest";
const std::string kNoDigest(32, '0');

// Bytes of an element; 0 for an unknown dtype.
std::uint64_t size_of(std::string_view dtype) {
  if (dtype == "BOOL" || dtype == "U8" || dtype == "I8" || dtype == "F8_E4M3" || dtype == "F8_E5M2") return 1;
  if (dtype == "F16" || dtype == "BF16" || dtype == "U16" || dtype == "I16") return 2;
  if (dtype == "F32" || dtype == "U32" || dtype == "I32") return 4;
  if (dtype == "F64" || dtype == "U64" || dtype == "I64") return 8;
  return 0;
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
      if (size_of(tensor_.dtype) == 0) refuse("dtype " + shown(value) + " is not one of the format's");
    } else if (place_ == Place::list) {
      std::vector<std::int64_t>& list = fields_[key_];
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxInteger)
        refuse(key_ + ": " + shown(value) + " is not an integer in 0..2^53");
      if (list.size() == (key_ == "shape" ? kMaxRank : 2)) refuse(key_ + " has too many numbers");
      list.push_back(value.get<std::int64_t>());
    } else if (place_ != Place::header || key_ != "__metadata__" || !value.is_null()) {  // null: there are none
      refuse(shown(value) + " is out of place");
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
  static std::string shown(const json& value) {
    return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
  }
  void end_tensor() {
    if (fields_.size() < 3) refuse("dtype, shape or data_offsets is missing");
    std::uint64_t bytes = size_of(tensor_.dtype);
    tensor_.shape = std::move(fields_["shape"]);
    for (const std::int64_t size : tensor_.shape) {
      const auto n = static_cast<std::uint64_t>(size);
      if (n != 0 && bytes > kMaxInteger / n) refuse("the shape has too many elements");
      bytes *= n;
    }
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
    const std::string text = header.dump();
    check<FormatError>(text.size() < kMaxHeader, text.size(), " bytes of header are too large");
    HeaderReader("the header").read(text);
    return text;
  } catch (const json::exception& e) {
    fail<ArgumentError>("safetensors: metadata: ", e.what(), "; nothing was written");
  } catch (const FormatError& e) {
    fail<ArgumentError>("safetensors: ", e.what(), "; nothing was written");
  }
}

std::string header_of(const std::map<std::string, std::string>& metadata, std::span<const TensorInfo> tensors) {
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

// The position of the digest's digits in a header; within other strings, the quotation marks would be escaped.
std::size_t place_of_digest(std::string_view header, const std::string& digits) {
  const std::string entry = '"' + std::string(kDigest) + "\":\"";
  const std::size_t at = header.find(entry + digits + '"');
  return at == header.npos ? at : at + entry.size();
}

std::string digest_of(std::string_view header, FunctionRef<void(Digest&)> add_data) {
  const std::uint64_t header_size = header.size();
  Digest digest;
  digest.add(&header_size, sizeof header_size);
  digest.add(header.data(), header.size());
  add_data(digest);
  return digest.hex();
}

}  // namespace

SafeTensorsFile::SafeTensorsFile(const std::filesystem::path& path)
    : file_(path, File::Open::reading), name_(printable_path(path)), size_(file_.size()) {
  read_header();
  check_layout();
  take_digest();
}

void SafeTensorsFile::read_header() {
  check<FormatError>(size_ >= 8, name_, ": ", size_, " bytes are too short for a safetensors file");
  std::uint64_t header_size = 0;
  file_.read_at(0, &header_size, 8);
  check<FormatError>(header_size >= 2 && header_size <= size_ - 8 && header_size <= kMaxHeader, name_,
                     ": not a safetensors file, or truncated: its first 8 bytes announce a header of ", header_size,
                     " bytes in a file of ", size_);
  header_.resize(header_size);
  file_.read_at(8, header_.data(), header_size);
  check<FormatError>(header_[0] == '{', name_, ": header byte 8: the header is not a JSON object");

  HeaderReader header(name_);
  header.read(header_);
  metadata_ = std::move(header.metadata);
  tensors_ = std::move(header.tensors);
  std::ranges::sort(tensors_, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
}

// The tensors cover the rest of the file without gap or overlap.
void SafeTensorsFile::check_layout() const {
  std::uint64_t end = 0;
  for (const TensorInfo& t : tensors_) {
    check<FormatError>(t.begin == end, name_, ": tensor ", printable(t.name), " begins at byte ", t.begin,
                       " of the data, where ", end, " is due");
    end = t.end;
  }
  const std::uint64_t rest = size_ - 8 - header_.size();
  check<FormatError>(end == rest, name_, ": the tensors end at byte ", end, " of the data, the file at ", rest,
                     ": truncated, or bytes appended");
}

// Takes the digest from the metadata, and fills its place in the header with zeros.
void SafeTensorsFile::take_digest() {
  if (const auto found = metadata_.find(kDigest); found != metadata_.end()) {
    digest_ = found->second;
    const std::size_t at = place_of_digest(header_, *digest_);
    const bool has_digits = digest_->find_first_not_of("0123456789abcdef") == header_.npos;
    check<FormatError>(digest_->size() == kNoDigest.size() && has_digits && at != header_.npos, name_, ": its ",
                       kDigest, " is not ", kNoDigest.size(), " digits");
    header_.replace(at, kNoDigest.size(), kNoDigest);
  }
  // If a flipped bit changes one of the two names, the other reveals it.
  check<FormatError>(metadata_.contains(kFormat) == digest_.has_value(), name_, ": its metadata has ",
                     digest_ ? kDigest : kFormat, " without ", digest_ ? kFormat : kDigest);
  check<FormatError>(!digest_ || metadata_.at(kFormat) == "1", name_, ": its ", kFormat, " is another than 1");
}

void SafeTensorsFile::verify() const {
  if (!digest_) return;
  const std::string found = digest_of(header_, [&](Digest& digest) {
    std::vector<std::byte> piece(std::min(std::uint64_t{1} << 20, size_));
    for (std::uint64_t at = 8 + header_.size(); at < size_; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size_ - at)));
      file_.read_at(at, piece.data(), piece.size());
      digest.add(piece.data(), piece.size());
    }
  });
  check<FormatError>(found == *digest_, name_, ": damaged: its digest is ", found, ", and was ", *digest_,
                     " when it was written");
}

void SafeTensorsFile::read(const TensorInfo& tensor, std::span<std::byte> to) const {
  check(to.size() == tensor.bytes(), name_, ": tensor ", printable(tensor.name), " has ", tensor.bytes(),
        " bytes, not ", to.size());
  read(tensor, 0, to);
}

void SafeTensorsFile::read(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> to) const {
  check(begin <= tensor.bytes() && to.size() <= tensor.bytes() - begin, name_, ": tensor ", printable(tensor.name),
        " has no ", to.size(), " bytes from ", begin, " on");
  file_.read_at(8 + header_.size() + tensor.begin + begin, to.data(), to.size());
}

Half::operator float() const {
  // Exponent and fraction moved to a float's places; a float's exponents begin 112 earlier.
  float size = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  if (size > 65536) size = NAN;  // the largest exponent has infinity and NaNs
  if (size == 65536) size = HUGE_VALF;
  const bool is_negative = bits >> 15;
  return std::copysign(size, is_negative ? -1.0F : 1.0F);
}

namespace {

// `bits` without its lowest n bits, rounded to the nearest, of two to the even one.
std::uint32_t rounded_off(std::uint32_t bits, int n) {
  const std::uint32_t below_half = (1u << (n - 1)) - 1;
  const std::uint32_t is_odd = (bits >> n) & 1;
  return (bits + below_half + is_odd) >> n;
}

}  // namespace

Half Half::nearest(float x) {
  constexpr std::uint32_t kInfinity = 0x7c00;
  const auto sign = std::bit_cast<std::uint32_t>(x) >> 16 & 0x8000;
  const float size = std::fabs(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(sign | 0x7e00)};
  std::uint32_t bits;
  if (size < 0x1p-14f) {
    bits = static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24f));  // a multiple of 2^-24
  } else {
    bits = rounded_off(std::bit_cast<std::uint32_t>(size), 13) - (112u << 10);  // exponents begin 112 later
  }
  return {static_cast<std::uint16_t>(sign | std::min(bits, kInfinity))};
}

BFloat BFloat::nearest(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<std::uint16_t>(rounded_off(bits, 16))};
}

namespace {

void write_file(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                std::span<const TensorInfo> tensors, FunctionRef<std::span<const std::byte>(std::size_t i)> bytes_of) {
  metadata[kFormat] = "1";
  metadata[kDigest] = kNoDigest;
  std::string text = header_of(metadata, tensors);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors aligned to 8 bytes
  const std::uint64_t header_size = text.size();
  replace_atomically(path, [&](File& file) {
    file.write(&header_size, sizeof header_size);
    file.write(text.data(), text.size());
    const std::string digest = digest_of(text, [&](Digest& of) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::span<const std::byte> bytes = bytes_of(i);
        check(bytes.size() == tensors[i].bytes(), "safetensors: tensor ", printable(tensors[i].name), " has ",
              bytes.size(), " bytes, not ", tensors[i].bytes());
        of.add(bytes.data(), bytes.size());
        file.write(bytes.data(), bytes.size());
      }
    });
    file.write_at(sizeof header_size + place_of_digest(text, kNoDigest), digest.data(), digest.size());
  });
}

// The bytes that a shape takes, or what it would without overflow, which the header's reader refuses.
std::uint64_t bytes_of_shape(const TensorInfo& tensor) {
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                       std::span<const TensorView> tensors) {
  std::vector<TensorInfo> infos;
  std::uint64_t end = 0;
  for (const TensorView& t : tensors) {
    infos.push_back({.name = t.name, .dtype = t.dtype, .shape = t.shape, .begin = end, .end = end + t.bytes.size()});
    end = infos.back().end;
  }
  write_file(path, std::move(metadata), infos, [&](std::size_t i) { return tensors[i].bytes; });
}

void write_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                       std::vector<TensorInfo> tensors,
                       FunctionRef<std::span<const std::byte>(std::size_t i)> bytes_of) {
  std::uint64_t end = 0;
  for (TensorInfo& t : tensors) {
    t.begin = end;
    t.end = end + bytes_of_shape(t);
    end = t.end;
  }
  write_file(path, std::move(metadata), tensors, bytes_of);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
