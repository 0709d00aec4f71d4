// Comma-separated values, record by record.
//
//   for_each_record("houses.csv", {}, [&](const CsvRecord& house) {
//     prices.push_back(house.number(house.column("price")));
//   });
//
// Format: RFC 4180, in UTF-8, with or without a byte order mark; lines end with LF or CR LF. A field in quotes may have
// separators, line breaks and, doubled, quotes. Memory is bounded by the longest record. To have columns as vectors,
// use read_table (table.h).
#pragma once

#include "../../autograd/core/function_ref.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct CsvFormat {
  char separator = ',';    // '\t' for .tsv
  bool has_header = true;  // a record of the columns' names; without, they are "1", "2" and so on
  std::size_t longest_record = std::size_t{1} << 20;  // bytes
};

// Errors are FormatErrors that begin with a place, "houses.csv:12:7", line and column counted from 1, in characters.
class CsvRecord {
 public:
  std::size_t size() const { return fields_.size(); }  // the fields, as many in each record
  std::string_view operator[](std::size_t field) const { return fields_[field]; }
  // The field of the column of this name. Throws if there is none, or if there are two.
  std::size_t column(std::string_view name) const;
  const std::vector<std::string>& names() const { return names_; }  // of the columns
  // The field as a number, in any locale as in C's; blanks around it do not count. Throws if it is not a finite number.
  double number(std::size_t field) const;
  // Where a field begins: "houses.csv:12:7".
  std::string where(std::size_t field) const { return where_of(begins_[field]); }

 private:
  friend void for_each_record(const std::filesystem::path& path, const CsvFormat& format,
                              FunctionRef<void(const CsvRecord&)> f);
  CsvRecord(std::string file, const CsvFormat& format) : file_(std::move(file)), format_(format) {}
  bool takes(std::string_view line);
  void finish();
  bool split();
  std::size_t plain_field(std::size_t begin);
  std::size_t quoted_field(std::size_t begin);
  std::string where_of(std::size_t at) const;

  std::string file_;  // its name, for messages
  CsvFormat format_;
  std::vector<std::string> names_;
  std::string text_;                 // of the record
  bool is_open_ = false;             // a quote is: the record goes on
  std::size_t line_ = 0;             // where the record begins
  std::size_t lines_ = 0;            // that were taken
  std::string unquoted_;             // what the fields in quotes hold
  std::vector<std::size_t> begins_;  // of the fields in the text
  std::vector<std::string_view> fields_;
};

// Calls f with each record but the header. Empty lines are passed over, but in a file of one column they are empty
// fields. Throws FormatError for a record with another number of fields than the first, for a quote that is not closed
// or not where a field begins, and for a record that is too long; ArgumentError for a separator that cannot be one; and
// as TextReader does for a file that cannot be read (text_file.h).
void for_each_record(const std::filesystem::path& path, const CsvFormat& format, FunctionRef<void(const CsvRecord&)> f);

}  // namespace SEPPO_ABI
}  // namespace seppo
