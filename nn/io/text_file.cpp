// Text in pieces: an incomplete character at the end of one begins the next.
#include "text_file.h"

#include "atomic_file.h"
#include "system.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr std::size_t kSmallPiece = 512;
constexpr std::size_t kLongestCharacter = 4;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

TextReader::TextReader(const std::filesystem::path& path) : name_(printable_path(path)) {
  file_.emplace(path, File::Open::reading);
  size_ = file_->size();
  piece_ = std::clamp<std::uint64_t>(size_ + 1, kSmallPiece, kPiece);  // one byte more, to reach the end
}

TextReader::TextReader() : name_("standard input"), piece_(kPiece) {}

std::size_t TextReader::read(char* to, std::size_t size) {
  if (file_) return file_->read_some(to, size);
  const std::ptrdiff_t n = read_standard_input(to, size);
  check<FileError>(n >= 0, name_, ": cannot read: ", std::strerror(errno));
  return static_cast<std::size_t>(n);
}

bool TextReader::read_more() {
  const std::size_t before = buffer_.size();
  buffer_.resize(before + piece_);
  const std::size_t n = read(&buffer_[before], piece_);
  buffer_.resize(before + n);
  taken_ += n;
  check<FileError>(n > 0 || size_ == 0 || taken_ == size_, name_, ": changed while it was read: it had ", size_,
                   " bytes, and gave ", taken_);
  return n > 0;
}

TextReader::Place TextReader::place_of(std::size_t at) const {
  Place place = place_;
  std::string_view text = std::string_view(buffer_).substr(0, at);
  if (const auto ends = std::count(text.begin(), text.end(), '\n'); ends > 0) {
    place = {place.line + static_cast<std::size_t>(ends), 1};
    text.remove_prefix(text.rfind('\n') + 1);
  }
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };  // a character
  place.column += static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins));
  return place;
}

std::string TextReader::where(std::size_t at) const {
  const Place place = place_of(at);
  return concat_text(name_, ":", place.line, ":", place.column);
}

std::string_view TextReader::next() {
  place_ = place_of(shown_);
  buffer_.erase(0, std::exchange(shown_, 0));
  while (shown_ == 0) {
    if (is_at_start_ && buffer_.starts_with(kByteOrderMark)) {
      buffer_.erase(0, kByteOrderMark.size());
      is_at_start_ = false;
    }
    shown_ = std::min(utf8_length(buffer_), buffer_.find('\0'));
    if (shown_ == 0 && (buffer_.size() >= kLongestCharacter || !read_more())) break;
  }
  if (shown_ == 0 && !buffer_.empty()) {
    const std::string byte = printable(std::string_view(buffer_).substr(0, 1));  // such as \xff
    fail<FormatError>(where(0), ": byte 0", byte.substr(1), buffer_[0] == '\0' ? " is not text" : " is not UTF-8");
  }
  is_at_start_ = false;
  return std::string_view(buffer_).substr(0, shown_);
}

void TextReader::for_each_line(FunctionRef<void(std::string_view)> f, std::size_t longest) {
  std::string begun;  // a line whose end is in a later piece
  std::size_t number = place_of(shown_).line;
  const auto without_return = [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    check<FormatError>(line.size() <= longest, name_, ":", number, ": is longer than ", longest, " bytes");
    return line;
  };
  const auto end_line = [&](std::string_view rest) {
    f(without_return(begun.empty() ? rest : begun += rest));
    begun.clear();
    ++number;
  };
  for (std::string_view piece; !(piece = next()).empty();) {
    for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos; piece.remove_prefix(end + 1))
      end_line(piece.substr(0, end));
    begun += piece;
    without_return(begun);
  }
  if (!begun.empty()) end_line("");
}

std::string read_text(const std::filesystem::path& path) {
  TextReader reader(path);
  std::string text;
  for (std::string_view piece; !(piece = reader.next()).empty();) text += piece;
  return text;
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  replace_atomically(path, [&](File& file) { file.write(text.data(), text.size()); });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
