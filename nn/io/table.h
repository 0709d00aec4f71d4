// Table: columns of a CSV file, as numbers and as categories.
//
//   const Table houses = read_table("houses.csv", {.numbers = {{"area"}, {"rooms", 4}, {"price"}},  // 4 where missing
//                                                  .categories = {{"heating"}}});
//   const Features x = houses.features({"area", "rooms"});
//   houses.ids("heating"), houses.names("heating")  // 1 0 1 ..., "gas" "oil"
//
// A field is missing if it is empty or, in a column of numbers, one of the marks in `missing`. It is an error, unless
// its column says what to take instead. Columns that are not asked for are not read.
#pragma once

#include "../data/features.h"
#include "csv.h"

#include "../../autograd/core/list.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct NumberColumn {
  std::string name;
  std::optional<double> if_missing = {};
};

struct CategoryColumn {
  std::string name;
  std::optional<std::string> if_missing = {};
  // The categories, in the order of their ids: those of the training data, for a file of test data. None: those of the
  // file, sorted, so that ids do not depend on the order of its rows.
  std::vector<std::string> names = {};
};

struct TableColumns {
  std::vector<NumberColumn> numbers = {};
  std::vector<CategoryColumn> categories = {};
  CsvFormat format = {};
  std::vector<std::string> missing = {"NA", "N/A", "NaN", "nan", "NULL", "null", "?"};
};

class Table {
 public:
  std::size_t size() const { return size_; }  // rows
  // An example for each row, with these columns of numbers, rounded to real. Throws ArgumentError for a name that is
  // not one.
  Features features(List<std::string> columns) const;
  // The ids of a column of categories, and their names. Otherwise as above.
  const std::vector<int>& ids(std::string_view column) const;
  const std::vector<std::string>& names(std::string_view column) const;

 private:
  friend class TableReader;
  struct Numbers {
    std::string name;
    std::vector<real> values;
  };
  struct Categories {
    std::string name;
    std::vector<std::string> names;
    std::vector<int> ids;
  };
  const Categories& categories(std::string_view column) const;

  std::size_t size_ = 0;
  std::vector<Numbers> numbers_;
  std::vector<Categories> categories_;
};

// Throws as for_each_record does, and FormatError with file, line and column for a number that is none or that is not
// finite as a real, a missing value, and a category that is not one of those given, and for a file without records;
// ArgumentError if a column is asked for twice, or given the same category twice.
Table read_table(const std::filesystem::path& path, const TableColumns& columns);

}  // namespace SEPPO_ABI
}  // namespace seppo
