// Records: lines are joined while a quote is open, then cut into fields.
#include "csv.h"

#include "text_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  return all;
}

// Of a number that is out of range: is it too near to zero? Its first digit says, and its exponent.
bool is_tiny(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, end);
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  std::string_view power = text.substr(std::min(end + 1, text.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  std::int64_t exponent = 0;
  const bool is_beyond = std::from_chars(power.data(), power.data() + power.size(), exponent).ec != std::errc();
  return is_beyond && !power.empty() ? power[0] == '-' : point - first + exponent < 0;
}

// The number that is all of the text. One too near to zero for a double is zero.
std::optional<double> whole_number(std::string_view text) {
  const char* const last = text.data() + text.size();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (end != last) return std::nullopt;
  if (error == std::errc()) return number;
  if (error == std::errc::result_out_of_range && is_tiny(text)) return text.starts_with('-') ? -0.0 : 0.0;
  return std::nullopt;
}

}  // namespace

std::size_t CsvRecord::column(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  check<FormatError>(found != names_.end(), file_, ":1:1: has no column ", printable(name), " but ",
                     printable(joined(names_), 100));
  check<FormatError>(std::find(found + 1, names_.end(), name) == names_.end(), file_, ":1:1: has two columns ",
                     printable(name));
  return static_cast<std::size_t>(found - names_.begin());
}

double CsvRecord::number(std::size_t field) const {
  std::string_view text = without_blanks(fields_[field]);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::optional<double> number = whole_number(text);
  if (!number || !std::isfinite(*number))
    fail<FormatError>(where(field), ": ", printable(names_[field]), " is '", printable(fields_[field]),
                      "', not a finite number");
  return *number;
}

std::string CsvRecord::where_of(std::size_t at) const {
  std::string_view before = std::string_view(text_).substr(0, at);
  const auto line = line_ + static_cast<std::size_t>(std::ranges::count(before, '\n'));
  before.remove_prefix(before.rfind('\n') + 1);
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };  // a character
  return concat_text(file_, ":", line, ":", 1 + std::ranges::count_if(before, begins));
}

// Whether a record of values ends with this line.
bool CsvRecord::takes(std::string_view line) {
  ++lines_;
  if (is_open_) {
    text_ += '\n';
  } else {
    text_.clear();
    line_ = lines_;
  }
  text_ += line;
  if (std::ranges::count(line, '"') % 2 == 1) is_open_ = !is_open_;
  if (text_.size() > format_.longest_record) {
    finish();
    fail<FormatError>(file_, ":", line_, ": a record of more than ", format_.longest_record, " bytes");
  }
  return !is_open_ && split();
}

// The file, or the longest record that is allowed, ends here.
void CsvRecord::finish() {
  if (!is_open_) return;
  split();  // finds the quote that is not closed, or one that does not belong where it is
}

// Cuts the text into fields. False for the header, and for an empty line that is no field.
bool CsvRecord::split() {
  if (text_.empty() && names_.size() != 1) return false;
  begins_.clear();
  fields_.clear();
  unquoted_.clear();
  unquoted_.reserve(text_.size());  // the fields refer to it
  for (std::size_t at = 0;; ++at) {
    begins_.push_back(at);
    at = text_[at] == '"' ? quoted_field(at) : plain_field(at);
    if (at == text_.size()) break;
  }
  const bool is_first = names_.empty();
  if (is_first)
    for (const std::string_view field : fields_)
      names_.push_back(format_.has_header ? std::string(field) : std::to_string(names_.size() + 1));
  if (fields_.size() != names_.size())  // check() would compute the place each time
    fail<FormatError>(where(0), ": a record of ", fields_.size(), " fields, not ", names_.size());
  return !(is_first && format_.has_header);
}

// Appends the field that begins here; returns where it ends, at a separator or the end of the text.
std::size_t CsvRecord::plain_field(std::size_t begin) {
  const std::size_t end = std::min(text_.find(format_.separator, begin), text_.size());
  const std::string_view field = std::string_view(text_).substr(begin, end - begin);
  const std::size_t quote = field.find('"');
  if (quote != std::string_view::npos)
    fail<FormatError>(where_of(begin + quote), ": a quote within a field that does not begin with one");
  fields_.push_back(field);
  return end;
}

std::size_t CsvRecord::quoted_field(std::size_t begin) {
  const std::size_t first = unquoted_.size();
  std::size_t at = begin + 1;
  for (;;) {
    const std::size_t quote = text_.find('"', at);
    if (quote == std::string::npos)
      fail<FormatError>(where_of(begin), ": a quote is not closed within ", text_.size() - begin, " bytes");
    unquoted_.append(text_, at, quote - at);
    at = quote + 1;
    if (text_[at] != '"') break;
    unquoted_ += '"';
    ++at;
  }
  const bool is_end = at == text_.size() || text_[at] == format_.separator;
  if (!is_end) fail<FormatError>(where_of(at), ": a closing quote must end its field");
  fields_.push_back(std::string_view(unquoted_).substr(first));
  return at;
}

void for_each_record(const std::filesystem::path& path, const CsvFormat& format,
                     FunctionRef<void(const CsvRecord&)> f) {
  const bool can_separate = std::string_view("\"\n\r").find(format.separator) == std::string_view::npos;
  check<ArgumentError>(can_separate && format.separator > 0, "csv: '", printable(std::string(1, format.separator)),
                       "' cannot be a separator");
  CsvRecord record(printable_path(path), format);
  const auto take = [&](std::string_view line) {
    if (record.takes(line)) f(record);
  };
  TextReader(path).for_each_line(take, format.longest_record);
  record.finish();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
