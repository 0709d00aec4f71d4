// .npy files: the header, a dictionary as Python writes it, and the values, which are converted piece by piece.
#include "npy.h"

#include "safetensors.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMostHeader = std::size_t{1} << 20;  // bytes
constexpr std::size_t kMostAxes = 64;                      // NumPy's own limit
constexpr std::size_t kPiece = std::size_t{1} << 20;       // bytes of values that are read at once

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void read();

  std::string type;
  bool is_fortran_order = false;
  std::vector<std::int64_t> shape;

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    fail<FormatError>(file_, ": byte ", at_, " of the header: ", why);
  }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \n", at_), text_.size()); }
  bool takes(std::string_view word) {
    skip_blanks();
    const bool is_next = text_.substr(at_).starts_with(word);
    if (is_next) at_ += word.size();
    return is_next;
  }
  void expect(std::string_view word) {
    if (!takes(word)) refuse("'" + std::string(word) + "' is missing");
  }
  std::string string();
  std::string type_name();
  bool boolean();
  std::int64_t size();
  std::vector<std::int64_t> sizes();

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

void HeaderText::read() {
  std::set<std::string> keys;
  expect("{");
  while (!takes("}")) {
    const std::string key = string();
    if (!keys.insert(key).second) refuse("a key comes twice");
    expect(":");
    if (key == "descr")
      type = type_name();
    else if (key == "fortran_order")
      is_fortran_order = boolean();
    else if (key == "shape")
      shape = sizes();
    else
      refuse("the key " + std::string(printable(key)) + " is not one of the format's");
    if (takes(",")) continue;
    expect("}");
    break;
  }
  skip_blanks();
  if (at_ < text_.size()) refuse("there is more behind the dictionary");
  if (keys.size() != 3) refuse("'descr', 'fortran_order' or 'shape' is missing");
}

std::string HeaderText::string() {
  skip_blanks();
  const char quote = at_ < text_.size() ? text_[at_] : '\0';
  if (quote != '\'' && quote != '"') refuse("a string is missing");
  const std::size_t end = text_.find(quote, at_ + 1);
  if (end == std::string_view::npos) refuse("a string does not end");
  const std::size_t begin = std::exchange(at_, end + 1) + 1;
  return std::string(text_.substr(begin, end - begin));
}

std::string HeaderText::type_name() {
  if (takes("[") || takes("(")) fail<FormatError>(file_, ": has records, which are not read; numbers and booleans are");
  return string();
}

bool HeaderText::boolean() {
  const bool is_true = takes("True");
  if (!is_true) expect("False");
  return is_true;
}

std::int64_t HeaderText::size() {
  skip_blanks();
  std::int64_t size = -1;
  const char* const begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
  if (error != std::errc() || size < 0) refuse("a size is missing, negative or too large");
  at_ += static_cast<std::size_t>(end - begin);
  takes("L");  // of Python 2
  return size;
}

std::vector<std::int64_t> HeaderText::sizes() {
  std::vector<std::int64_t> sizes;
  expect("(");
  while (!takes(")")) {
    if (sizes.size() == kMostAxes) refuse("there are too many axes");
    sizes.push_back(size());
    if (takes(",")) continue;
    if (sizes.size() == 1) refuse("',' is missing");  // (3) is no tuple
    expect(")");
    break;
  }
  return sizes;
}

// ---- values ---------------------------------------------------------------------------------------

struct Boolean {
  std::uint8_t byte;
};

// The number as a T; nothing if it has none.
template <class T, class S>
std::optional<T> as(S number) {
  if constexpr (std::is_same_v<S, Boolean>) {
    return number.byte <= 1 ? std::optional(static_cast<T>(number.byte)) : std::nullopt;
  } else if constexpr (std::is_same_v<S, Half>) {
    return as<T>(static_cast<float>(number));
  } else if constexpr (std::is_floating_point_v<T>) {
    const T rounded = static_cast<T>(number);
    if constexpr (std::is_floating_point_v<S>)
      if (std::isinf(rounded) && !std::isinf(number)) return std::nullopt;
    return rounded;
  } else if constexpr (std::is_integral_v<S>) {
    return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
  } else {
    const S bound = std::ldexp(S{1}, std::numeric_limits<T>::digits);
    const bool fits = std::trunc(number) == number && number >= -bound && number < bound;
    return fits ? std::optional(static_cast<T>(number)) : std::nullopt;
  }
}

template <class S>
auto shown(S number) {
  if constexpr (std::is_same_v<S, Boolean>)
    return int{number.byte};
  else if constexpr (std::is_same_v<S, Half>)
    return static_cast<float>(number);
  else
    return number;
}

template <class S>
S stored_at(const std::byte* bytes, bool is_swapped) {
  std::array<std::byte, sizeof(S)> own;
  std::copy_n(bytes, sizeof(S), own.begin());
  if (is_swapped) std::ranges::reverse(own);
  return std::bit_cast<S>(own);
}

// What is read, and as what.
template <class T>
struct Taken {
  const std::string& file;
  const char* type;
  bool is_swapped;
  std::vector<T> values;
};

template <class T, class S>
void take(std::span<const std::byte> bytes, Taken<T>& to) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(S)) {
    const S stored = stored_at<S>(&bytes[at], to.is_swapped);
    const std::optional<T> value = as<T>(stored);
    check<FormatError>(value.has_value(), to.file, ": value ", to.values.size(), ", ", shown(stored), ", is no ",
                       to.type);
    to.values.push_back(*value);
  }
}

template <class T>
const std::map<std::string_view, void (*)(std::span<const std::byte>, Taken<T>&)> kTakes{
    {"f2", take<T, Half>},          {"f4", take<T, float>},         {"f8", take<T, double>},
    {"i1", take<T, std::int8_t>},   {"i2", take<T, std::int16_t>},  {"i4", take<T, std::int32_t>},
    {"i8", take<T, std::int64_t>},  {"u1", take<T, std::uint8_t>},  {"u2", take<T, std::uint16_t>},
    {"u4", take<T, std::uint32_t>}, {"u8", take<T, std::uint64_t>}, {"b1", take<T, Boolean>}};

// '<f4' without the byte order: f4
std::string_view code_of(std::string_view type) {
  const bool has_order = !type.empty() && std::string_view("<>|=").find(type[0]) != std::string_view::npos;
  return has_order ? type.substr(1) : type;
}

// From Fortran's order, in which the first axis varies fastest.
template <class T>
std::vector<T> row_major(const std::vector<T>& values, const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> sizes(shape.begin(), shape.end()), strides, index(shape.size());
  std::size_t stride = 1;
  for (const std::size_t size : sizes) strides.push_back(std::exchange(stride, stride * size));
  std::vector<T> moved;
  moved.reserve(values.size());
  for (std::size_t from = 0; moved.size() < values.size();) {
    moved.push_back(values[from]);
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < sizes[axis]) break;
      from -= strides[axis] * std::exchange(index[axis], 0);
    }
  }
  return moved;
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path, File::Open::reading), name_(printable_path(path)) {
  read_header();
  const std::uint64_t values = file_.size() - begin_;
  const std::string_view code = code_of(type_);
  const bool has_order = type_[0] != '|' || code.ends_with('1');
  check<FormatError>(kTakes<real>.contains(code) && has_order, name_, ": values of type ", printable(type_),
                     " are not read; f2, f4, f8, i1 to i8, u1 to u8 and b1 are");
  width_ = static_cast<std::size_t>(code[1] - '0');
  size_ = std::ranges::find(shape_, 0) == shape_.end() ? 1 : 0;
  for (const std::int64_t size : shape_) {
    const bool fits = size == 0 || size_ <= values / width_ / static_cast<std::uint64_t>(size);
    check<FormatError>(fits, name_, ": ends before its values do");
    size_ *= static_cast<std::size_t>(size);
  }
  check<FormatError>(size_ * width_ == values, name_, ": has ", values, " bytes of values, not ", size_, " times ",
                     width_);
}

void NpyFile::read_header() {
  std::array<unsigned char, 12> start{};
  const std::uint64_t size = file_.size();
  file_.read_at(0, start.data(), std::min<std::uint64_t>(size, start.size()));
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  check<FormatError>(!text.starts_with("PK\3\4"), name_, ": is an .npz archive; numpy.save writes .npy files");
  check<FormatError>(text.starts_with(kMagic), name_, ": is not a .npy file");
  const int version = start[6];
  check<FormatError>(version >= 1 && version <= 3 && start[7] == 0, name_, ": has version ", version, ".",
                     int{start[7]}, " of the format; 1.0 to 3.0 are read");
  begin_ = version == 1 ? 10 : 12;
  const auto byte = [&](std::size_t i) { return std::uint64_t{start[i]}; };
  std::uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  check<FormatError>(length <= kMostHeader && begin_ + length <= size, name_, ": a header of ", length,
                     " bytes is longer than the file or ", kMostHeader);
  std::string header(length, '\0');
  file_.read_at(begin_, header.data(), header.size());
  begin_ += length;
  HeaderText read(header, name_);
  read.read();
  type_ = read.type;
  shape_ = read.shape;
  is_fortran_order_ = read.is_fortran_order;
}

template <class T>
std::vector<T> NpyFile::values() const {
  constexpr const char* kName = std::is_same_v<T, float>    ? "float"
                                : std::is_same_v<T, double> ? "double"
                                : std::is_same_v<T, int>    ? "int"
                                                            : "std::int64_t";
  Taken<T> taken{name_, kName, type_[0] == '>', {}};
  taken.values.reserve(size_);
  const auto take_piece = kTakes<T>.at(code_of(type_));
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0, bytes = size_ * width_; at < bytes; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(bytes - at, kPiece));
    file_.read_at(begin_ + at, piece.data(), piece.size());
    take_piece(piece, taken);
  }
  return is_fortran_order_ ? row_major(taken.values, shape_) : std::move(taken.values);
}

template std::vector<float> NpyFile::values<float>() const;
template std::vector<double> NpyFile::values<double>() const;
template std::vector<int> NpyFile::values<int>() const;
template std::vector<std::int64_t> NpyFile::values<std::int64_t>() const;

Features read_features(const std::filesystem::path& path) {
  const NpyFile file(path);
  check(!file.shape().empty(), printable_path(path), ": has no axis for the examples");
  Shape shape;
  for (const std::int64_t size : std::span(file.shape()).subspan(1)) {
    check(std::in_range<int>(size), printable_path(path), ": an axis of ", size, " is too long for a tensor");
    shape.append(static_cast<int>(size));
  }
  return Features(shape, file.values<real>());
}

// ---- writing --------------------------------------------------------------------------------------

namespace {

template <class T>
void write_values(const std::filesystem::path& path, const char* type, const Shape& shape, std::span<const T> values) {
  check(static_cast<std::size_t>(shape.numel()) == values.size(), "write_npy: shape ", shape, " has ", shape.numel(),
        " elements, ", values.size(), " values given");
  const std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  write_npy(path, type, sizes, [&](File& file) { file.write(values.data(), values.size_bytes()); });
}

}  // namespace

void write_npy(const std::filesystem::path& path, const Shape& shape, List<float> values) {
  write_values<float>(path, "<f4", shape, values);
}

void write_npy(const std::filesystem::path& path, const Shape& shape, List<double> values) {
  write_values<double>(path, "<f8", shape, values);
}

void write_npy(const std::filesystem::path& path, const Shape& shape, List<int> values) {
  write_values<int>(path, "<i4", shape, values);
}

void write_npy(const std::filesystem::path& path, const Shape& shape, List<std::int64_t> values) {
  write_values<std::int64_t>(path, "<i8", shape, values);
}

void write_npy(const std::filesystem::path& path, std::string_view type, std::span<const std::int64_t> shape,
               FunctionRef<void(File&)> write_values) {
  std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : shape) header += std::to_string(size) + ",";
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // with the newline, a multiple of 64 bytes
  header += '\n';
  std::string start(kMagic);
  start += {1, 0, static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  start += header;
  replace_atomically(path, [&](File& file) {
    file.write(start.data(), start.size());
    write_values(file);
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
