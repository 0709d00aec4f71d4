// Tables: every record is taken apart as it is read; only the columns stay.
#include "table.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

class TableReader {
 public:
  explicit TableReader(const TableColumns& columns);

  void take(const CsvRecord& record);
  Table finish();

 private:
  real number(const CsvRecord& record, std::size_t field, const NumberColumn& column) const;
  int id(const CsvRecord& record, std::size_t field, std::size_t column);
  void find_fields(const CsvRecord& record);
  void sort_names(std::size_t column);

  const TableColumns& columns_;
  Table table_;
  std::vector<std::map<std::string, int, std::less<>>> ids_;  // of each column of categories
  std::vector<std::size_t> number_fields_, category_fields_;
};

TableReader::TableReader(const TableColumns& columns) : columns_(columns), ids_(columns.categories.size()) {
  std::vector<std::string> asked;
  for (const NumberColumn& column : columns.numbers) {
    table_.numbers_.push_back({column.name, {}});
    asked.push_back(column.name);
  }
  for (std::size_t c = 0; c < ids_.size(); ++c) {
    const CategoryColumn& column = columns.categories[c];
    table_.categories_.push_back({column.name, column.names, {}});
    asked.push_back(column.name);
    for (const std::string& name : column.names) {
      const bool is_new = ids_[c].emplace(name, ids_[c].size()).second;
      check<ArgumentError>(is_new, "table: the category ", printable(name), " of ", printable(column.name),
                           " is given twice");
    }
  }
  std::ranges::sort(asked);
  const auto twice = std::ranges::adjacent_find(asked);
  if (twice != asked.end()) fail<ArgumentError>("table: the column ", printable(*twice), " is asked for twice");
}

void TableReader::find_fields(const CsvRecord& record) {
  for (const NumberColumn& column : columns_.numbers) number_fields_.push_back(record.column(column.name));
  for (const CategoryColumn& column : columns_.categories) category_fields_.push_back(record.column(column.name));
}

void TableReader::take(const CsvRecord& record) {
  if (table_.size_++ == 0) find_fields(record);
  for (std::size_t c = 0; c < number_fields_.size(); ++c)
    table_.numbers_[c].values.push_back(number(record, number_fields_[c], columns_.numbers[c]));
  for (std::size_t c = 0; c < category_fields_.size(); ++c)
    table_.categories_[c].ids.push_back(id(record, category_fields_[c], c));
}

real TableReader::number(const CsvRecord& record, std::size_t field, const NumberColumn& column) const {
  const std::string_view text = record[field];
  const bool is_missing = text.find_first_not_of(" \t") == std::string_view::npos ||
                          std::ranges::find(columns_.missing, text) != columns_.missing.end();
  if (is_missing && !column.if_missing)
    fail<FormatError>(record.where(field), ": ", printable(column.name), " is missing");
  const real number = static_cast<real>(is_missing ? *column.if_missing : record.number(field));
  if (!std::isfinite(number) && !is_missing)
    fail<FormatError>(record.where(field), ": ", printable(column.name), " is ", printable(text),
                      ", beyond single precision");
  return number;
}

int TableReader::id(const CsvRecord& record, std::size_t field, std::size_t column) {
  const CategoryColumn& wanted = columns_.categories[column];
  std::string_view text = record[field];
  if (text.empty()) {
    if (!wanted.if_missing) fail<FormatError>(record.where(field), ": ", printable(wanted.name), " is missing");
    text = *wanted.if_missing;
  }
  auto& ids = ids_[column];
  const auto found = ids.find(text);
  if (found != ids.end()) return found->second;
  if (!wanted.names.empty())
    fail<FormatError>(record.where(field), ": ", printable(wanted.name), " is ", printable(text),
                      ", which is none of its ", wanted.names.size(), " categories");
  return ids.emplace(text, static_cast<int>(ids.size())).first->second;
}

// Ids in the order of the names instead of the rows.
void TableReader::sort_names(std::size_t column) {
  Table::Categories& sorted = table_.categories_[column];
  std::vector<int> sorted_id(ids_[column].size());
  for (const auto& [name, id] : ids_[column]) {
    sorted_id[static_cast<std::size_t>(id)] = static_cast<int>(sorted.names.size());
    sorted.names.push_back(name);
  }
  for (int& id : sorted.ids) id = sorted_id[static_cast<std::size_t>(id)];
}

Table TableReader::finish() {
  for (std::size_t c = 0; c < ids_.size(); ++c)
    if (columns_.categories[c].names.empty()) sort_names(c);
  return std::move(table_);
}

Features Table::features(List<std::string> columns) const {
  std::vector<const std::vector<real>*> chosen;
  for (const std::string& column : columns) {
    const auto found = std::ranges::find(numbers_, column, &Numbers::name);
    check<ArgumentError>(found != numbers_.end(), "table: ", printable(column),
                         " is not one of its columns of numbers");
    chosen.push_back(&found->values);
  }
  std::vector<real> values;
  values.reserve(size_ * chosen.size());
  for (std::size_t row = 0; row < size_; ++row)
    for (const std::vector<real>* column : chosen) values.push_back((*column)[row]);
  return Features({static_cast<int>(chosen.size())}, std::move(values));
}

const Table::Categories& Table::categories(std::string_view column) const {
  const auto found = std::ranges::find(categories_, column, &Categories::name);
  check<ArgumentError>(found != categories_.end(), "table: ", printable(column),
                       " is not one of its columns of categories");
  return *found;
}

const std::vector<int>& Table::ids(std::string_view column) const { return categories(column).ids; }

const std::vector<std::string>& Table::names(std::string_view column) const { return categories(column).names; }

Table read_table(const std::filesystem::path& path, const TableColumns& columns) {
  TableReader reader(columns);
  for_each_record(path, columns.format, [&](const CsvRecord& record) { reader.take(record); });
  Table table = reader.finish();
  check<FormatError>(table.size() > 0, printable_path(path), ": has no records");
  return table;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
