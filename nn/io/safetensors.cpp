// Safetensors files: opened, checked, and written.
#include "safetensors.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "digest.h"
#include "safetensors_header.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr const char* kFormat = "seppo.format";
constexpr const char* kDigest = "seppo.digest";
constexpr std::size_t kDigits = 32;  // of a digest

// The position of the digests' digits in a header; within other strings, the quotation marks would be escaped.
std::size_t place_of_digests(std::string_view header, const std::string& digits) {
  const std::string entry = '"' + std::string(kDigest) + "\":\"";
  const std::size_t at = header.find(entry + digits + '"');
  return at == header.npos ? at : at + entry.size();
}

// A digest that has begun with the header and its length.
Digest digest_of_header(std::string_view header) {
  const std::uint64_t header_size = header.size();
  Digest digest;
  digest.add(&header_size, sizeof header_size);
  digest.add(header.data(), header.size());
  return digest;
}

}  // namespace

SafeTensorsFile::SafeTensorsFile(const std::filesystem::path& path)
    : file_(path, File::Open::reading), name_(printable_path(path)), size_(file_.size()) {
  read_header();
  check_layout();
  take_digests();
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

  SafeTensorsHeader header = seppo::read_header(name_, header_);
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
  if (end == rest) return;
  const auto cut = std::ranges::find_if(tensors_, [&](const TensorInfo& t) { return t.end > rest; });
  const std::string what =
      cut == tensors_.end() ? "bytes appended" : "truncated, in tensor " + std::string(printable(cut->name));
  fail<FormatError>(name_, ": the tensors end at byte ", end, " of the data, the file at ", rest, ": ", what);
}

// Takes the digests from the metadata, and fills the place of the first in the header with zeros.
void SafeTensorsFile::take_digests() {
  const auto format = metadata_.find(kFormat);
  const auto digests = metadata_.find(kDigest);
  const bool has_format = format != metadata_.end();
  // If a flipped bit changes one of the two names, the other reveals it.
  check<FormatError>(has_format == (digests != metadata_.end()), name_, ": its metadata has ",
                     has_format ? kFormat : kDigest, " without ", has_format ? kDigest : kFormat);
  if (!has_format) return;
  check<FormatError>(format->second == "1" || format->second == "2", name_, ": its ", kFormat,
                     " is another than 1 and 2");
  names_damage_ = format->second == "2";
  const std::string& digits = digests->second;
  const std::size_t due = kDigits * (names_damage_ ? 1 + tensors_.size() : 1);
  const std::size_t at = place_of_digests(header_, digits);
  const bool has_digits = digits.find_first_not_of("0123456789abcdef") == digits.npos;
  check<FormatError>(digits.size() == due && has_digits && at != header_.npos, name_, ": its ", kDigest, " is not ",
                     due, " digits");
  digest_ = digits.substr(0, kDigits);
  header_.replace(at, kDigits, kDigits, '0');
}

void SafeTensorsFile::add_to(Digest& digest, const TensorInfo& tensor) const {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(std::uint64_t{1} << 20, tensor.bytes())));
  for (std::uint64_t at = 0; at < tensor.bytes(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), tensor.bytes() - at)));
    read(tensor, at, piece);
    digest.add(piece.data(), piece.size());
  }
}

std::vector<std::string> SafeTensorsFile::damage() const {
  if (!digest_) return {};
  std::vector<std::string> damage;
  Digest digest = digest_of_header(header_);
  if (!names_damage_) {
    add_to(digest, {.name = "", .dtype = "", .shape = {}, .begin = 0, .end = size_ - 8 - header_.size()});
    if (digest.hex() != *digest_) damage.push_back("the file, which has no digest of each tensor");
    return damage;
  }
  if (digest.hex() != *digest_) damage.push_back("the header");
  const std::string_view digits = metadata_.at(kDigest);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Digest own;
    add_to(own, tensors_[i]);
    if (own.hex() != digits.substr(kDigits * (i + 1), kDigits))
      damage.push_back("tensor " + std::string(printable(tensors_[i].name)));
  }
  return damage;
}

void SafeTensorsFile::verify() const {
  constexpr std::size_t kMost = 8;
  const std::vector<std::string> parts = damage();
  if (parts.empty()) return;
  std::string text = parts[0];
  for (std::size_t i = 1; i < std::min(parts.size(), kMost); ++i) text += ", " + parts[i];
  if (parts.size() > kMost) text += " and " + std::to_string(parts.size() - kMost) + " more";
  fail<FormatError>(name_, ": damaged: ", text);
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

namespace {

void write_file(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                std::span<const TensorInfo> tensors, FunctionRef<std::span<const std::byte>(std::size_t i)> bytes_of) {
  const std::string no_digests(kDigits * (1 + tensors.size()), '0');
  metadata[kFormat] = "2";
  metadata[kDigest] = no_digests;
  std::string text = header_text(metadata, tensors);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors aligned to 8 bytes
  const std::uint64_t header_size = text.size();
  replace_atomically(path, [&](File& file) {
    file.write(&header_size, sizeof header_size);
    file.write(text.data(), text.size());
    const std::size_t at = place_of_digests(text, no_digests);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::span<const std::byte> bytes = bytes_of(i);
      check(bytes.size() == tensors[i].bytes(), "safetensors: tensor ", printable(tensors[i].name), " has ",
            bytes.size(), " bytes, not ", tensors[i].bytes());
      Digest digest;
      digest.add(bytes.data(), bytes.size());
      text.replace(at + kDigits * (i + 1), kDigits, digest.hex());
      file.write(bytes.data(), bytes.size());
    }
    text.replace(at, kDigits, digest_of_header(text).hex());
    file.write_at(sizeof header_size + at, text.data() + at, no_digests.size());
  });
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
