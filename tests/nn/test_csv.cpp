// Comma-separated values: records against the rules of RFC 4180, columns as numbers and categories, and mistakes named
// by their place.
#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/csv.h>
#include <seppo/nn/io/table.h>

#include "support/errors.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using test::check_error;
using test::Folder;
namespace fs = std::filesystem;

namespace {

using Fields = std::vector<std::string>;
using Records = std::vector<Fields>;

struct Fixture {
  Folder folder{"csv"};
  fs::path path = folder.path / "x.csv";

  Records records(const std::string& content, const CsvFormat& format = {.has_header = false}) const {
    folder.write("x.csv", content);
    Records all;
    for_each_record(path, format, [&](const CsvRecord& record) {
      all.emplace_back();
      for (std::size_t i = 0; i < record.size(); ++i) all.back().emplace_back(record[i]);
    });
    return all;
  }
  void check_refused(const std::string& content, const std::string& place_and_why) const {
    check_error<FormatError>([&] { records(content); }, {"x.csv:" + place_and_why});
  }
  Table table(const std::string& content, const TableColumns& columns) const {
    folder.write("x.csv", content);
    return read_table(path, columns);
  }
};

std::vector<real> column_of(const Table& table, const std::string& name) {
  const Features features = table.features({name});
  return {features.values().begin(), features.values().end()};
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(records_and_fields, Fixture) {
  const Records two{{"a", "b"}, {"1", "2"}};
  for (const char* content : {"a,b\n1,2\n", "a,b\n1,2", "a,b\r\n1,2\r\n",
                              "\xef\xbb\xbf"
                              "a,b\n1,2\n",
                              "\na,b\n\n\n1,2\n\n"})
    BOOST_CHECK(records(content) == two);
  BOOST_CHECK((records(",\n,x\n") == Records{{"", ""}, {"", "x"}}));
  BOOST_CHECK((records("a\n\nb\n") == Records{{"a"}, {""}, {"b"}}));  // one column: an empty field
  BOOST_CHECK((records(" a , b\n") == Records{{" a ", " b"}}));
  BOOST_CHECK(records("").empty());
  BOOST_CHECK((records("a;b\n", {.separator = ';', .has_header = false}) == Records{{"a", "b"}}));
  BOOST_CHECK((records("a\tb,c\n", {.separator = '\t', .has_header = false}) == Records{{"a", "b,c"}}));
  BOOST_CHECK((records("x,y\n1,2\n", {}) == Records{{"1", "2"}}));
}

BOOST_FIXTURE_TEST_CASE(fields_in_quotes, Fixture) {
  BOOST_CHECK((records("\"a\",\"b,c\"\n") == Records{{"a", "b,c"}}));
  BOOST_CHECK((records("\"a \"\"b\"\"\",\"\"\n") == Records{{"a \"b\"", ""}}));
  BOOST_CHECK((records("\"\"\"\",x\n") == Records{{"\"", "x"}}));
  BOOST_CHECK((records("\"a\nb\r\n\nc\",1\n2,3\n") == Records{{"a\nb\n\nc", "1"}, {"2", "3"}}));
  BOOST_CHECK((records("x,\"\"\"\n\",\"y\"") == Records{{"x", "\"\n", "y"}}));
}

// Any records, written by the rules, are read back.
BOOST_FIXTURE_TEST_CASE(what_is_written_by_the_rules_is_read, Fixture) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces{"a", "\"", ",", "\n", " ", "ä", "\"\"", "1.5", ";", "\t"};
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t columns = 2 + random() % 3;
    Records written(1 + random() % 5, Fields(columns));
    std::string content;
    for (Fields& fields : written)
      for (std::size_t i = 0; i < columns; ++i) {
        for (auto n = random() % 4; n > 0; --n) fields[i] += pieces[random() % pieces.size()];
        std::string shown = fields[i];
        if (shown.find_first_of("\",\n") != std::string::npos || random() % 4 == 0) {
          for (std::size_t at = 0; (at = shown.find('"', at)) != std::string::npos; at += 2) shown.insert(at, 1, '"');
          shown = '"' + shown + '"';
        }
        content += shown + (i + 1 < columns ? "," : random() % 2 ? "\n" : "\r\n");
      }
    BOOST_REQUIRE_MESSAGE(records(content) == written, content);
  }
}

BOOST_FIXTURE_TEST_CASE(mistakes_are_named_by_their_place, Fixture) {
  check_refused("a,b\n1,2,3\n", "2:1: a record of 3 fields, not 2");
  check_refused("a,b\n\n1\n", "3:1: a record of 1 fields, not 2");
  check_refused("a,b\nä\",2\n", "2:2: a quote within a field");
  check_refused("a,b\n1,2\"\nc,d\n", "2:4: a quote within a field");
  check_refused("a,b\n1, \"2\"\n", "2:4: a quote within a field");
  check_refused("a,b\n\"1\"x,2\n", "2:4: a closing quote must end its field");
  check_refused("a,b\n\"x\ny\" ,2\n", "3:3: a closing quote must end its field");
  check_refused("a,b\n1,\"2\n3,4\n", "2:3: a quote is not closed within 6 bytes");
  check_refused("a,b\nc\xff,d\n", "2:2: byte 0xff is not UTF-8");
  for (const char separator : {'"', '\n', '\r', '\0', '\xe4'})
    BOOST_CHECK_THROW(records("a", {.separator = separator}), ArgumentError);
  BOOST_CHECK_THROW(for_each_record("/nowhere", {}, [](const CsvRecord&) {}), FileError);
}

// Memory is bounded by the longest record that is allowed: reading ends there.
BOOST_FIXTURE_TEST_CASE(records_that_are_too_long, Fixture) {
  const CsvFormat short_records{.has_header = false, .longest_record = 10};
  BOOST_CHECK_EQUAL(records("a,bcdefghi\n1,2\n", short_records).size(), 2);
  check_error<FormatError>([&] { records("a,b\na,bcdefghij\n", short_records); }, {"x.csv:2: is longer than 10 bytes"});
  BOOST_CHECK_EQUAL(records("a,\"bcd\nef\"\n", short_records).size(), 1);
  check_error<FormatError>([&] { records("a,b\na,\"bcd\nefghi\n\n\n\n\",\"\n", short_records); },
                           {"x.csv:2:3: a quote is not closed within 10 bytes"});
  check_error<FormatError>([&] { records("a,b\na,\"bcdefgh\nijklmnop\"\n", short_records); },
                           {"x.csv:2: a record of more than 10 bytes"});
  check_error<FormatError>([&] { records("a,b\n1,\"\n" + std::string(3 << 20, '\n')); },
                           {"x.csv:2:3: a quote is not closed within 1048575 bytes"});
}

BOOST_FIXTURE_TEST_CASE(columns_of_a_record, Fixture) {
  folder.write("x.csv", "a,b,a,\"c\"\n1,2,3,4\n");
  for_each_record(path, {}, [&](const CsvRecord& record) {
    BOOST_CHECK((record.names() == Fields{"a", "b", "a", "c"}));
    BOOST_CHECK(record.column("b") == 1 && record.column("c") == 3 && record.number(3) == 4);
    BOOST_CHECK_EQUAL(record.where(2), path.string() + ":2:5");
    check_error<FormatError>([&] { (void)record.column("a"); }, {"x.csv:1:1: has two columns a"});
    check_error<FormatError>([&] { (void)record.column("d"); }, {"has no column d but 'a', 'b', 'a', 'c'"});
  });
  folder.write("x.csv", "1,2\n");
  for_each_record(path, {.has_header = false}, [&](const CsvRecord& record) {
    BOOST_CHECK((record.names() == Fields{"1", "2"}) && record.number(record.column("2")) == 2);
  });
}

// Nothing but a number; test_untrusted_input has a locale with decimal commas.
BOOST_FIXTURE_TEST_CASE(numbers_of_a_record, Fixture) {
  const std::vector<std::pair<std::string, double>> numbers{{"1", 1},
                                                            {"-2.5", -2.5},
                                                            {"+3", 3},
                                                            {" 4 ", 4},
                                                            {"\t5e-3", 0.005},
                                                            {"1E5", 1e5},
                                                            {".5", 0.5},
                                                            {"6.", 6},
                                                            {"0.1", 0.1},
                                                            {"1e-320", 1e-320},
                                                            {"1e-400", 0},
                                                            {"-1e-5000", -0.0},
                                                            {"0." + std::string(400, '0') + "1", 0},
                                                            {"1e-99999999999999999999", 0}};
  for (const auto& [text, number] : numbers) {
    folder.write("x.csv", "n;\n" + text + ";\n");
    double read = 0;
    for_each_record(path, {.separator = ';'}, [&](const CsvRecord& record) { read = record.number(0); });
    BOOST_CHECK_EQUAL(read, number);
    BOOST_CHECK_EQUAL(std::signbit(read), std::signbit(number));
  }
  for (const char* text : {"", " ", "1,5", "1.5x", "x", "1 2", "--1", "+-1", "+", "0x10", "1e", "inf", "-inf", "nan",
                           "1e400", "1e5000", "1e99999999999999999999", "1e-400x", "1.2.3"}) {
    folder.write("x.csv", "a;n\n;" + std::string(text) + "\n");
    check_error<FormatError>(
        [&] { for_each_record(path, {.separator = ';'}, [](const CsvRecord& record) { (void)record.number(1); }); },
        {"x.csv:2:2: n is '" + std::string(text) + "', not a finite number"});
  }
  folder.write("x.csv", "n;\n1" + std::string(400, '0') + "e-1;\n");
  check_error<FormatError>(
      [&] { for_each_record(path, {.separator = ';'}, [](const CsvRecord& record) { (void)record.number(0); }); },
      {"not a finite number"});
}

BOOST_FIXTURE_TEST_CASE(columns_as_numbers_and_categories, Fixture) {
  const std::string content = "id,area,heating,rooms,price\n7,80.5,oil,3,100\n8,40,gas,?,50\n9,60,oil,,70\n";
  const Table houses = table(content, {.numbers = {{"area"}, {"rooms", 4}, {"price"}}, .categories = {{"heating"}}});
  BOOST_CHECK_EQUAL(houses.size(), 3);
  const Features x = houses.features({"rooms", "area"});
  BOOST_CHECK(x.size() == 3 && x.shape() == Shape{2});
  const std::vector<real> expected{3, 80.5, 4, 40, 4, 60};
  BOOST_CHECK_EQUAL_COLLECTIONS(x.values().begin(), x.values().end(), expected.begin(), expected.end());
  BOOST_CHECK((column_of(houses, "price") == std::vector<real>{100, 50, 70}));
  BOOST_CHECK((houses.ids("heating") == std::vector<int>{1, 0, 1} && houses.names("heating") == Fields{"gas", "oil"}));
  check_error<ArgumentError>([&] { houses.features({"id"}); }, {"table: id is not one of its columns of numbers"});
  check_error<ArgumentError>([&] { houses.ids("area"); }, {"table: area is not one of its columns of categories"});
  check_error<ArgumentError>([&] { houses.names("x"); }, {"table: x is not one of its columns of categories"});
}

// Ids depend neither on the order of the rows, nor in a file of test data on which categories it has.
BOOST_FIXTURE_TEST_CASE(ids_of_categories, Fixture) {
  const TableColumns columns{.categories = {{"c"}}};
  const Table train = table("c\nb\nc\na\nb\n", columns);
  BOOST_CHECK((train.names("c") == Fields{"a", "b", "c"} && train.ids("c") == std::vector<int>{1, 2, 0, 1}));
  const CategoryColumn known{.name = "c", .names = train.names("c")};
  const Table test = table("c\nc\nb\n", {.categories = {known}});
  BOOST_CHECK((test.ids("c") == std::vector<int>{2, 1} && test.names("c") == train.names("c")));
  check_error<FormatError>([&] { table("c\nb\nd\n", {.categories = {known}}); },
                           {"x.csv:3:1: c is d, which is none of its 3 categories"});
}

BOOST_FIXTURE_TEST_CASE(missing_values, Fixture) {
  const auto refused = [&](const std::string& row, const std::string& place_and_why) {
    check_error<FormatError>([&] { table("n,c\n1,x\n" + row, {.numbers = {{"n"}}, .categories = {{"c"}}}); },
                             {"x.csv:3:" + place_and_why});
  };
  for (const char* mark : {"", " ", "NA", "N/A", "NaN", "nan", "NULL", "null", "?"})
    refused(std::string(mark) + ",x\n", "1: n is missing");
  refused("1,\n", "3: c is missing");
  const Table filled =
      table("n,c\n-,\n2,NA\n", {.numbers = {{"n", -1}}, .categories = {{"c", "none"}}, .missing = {"-"}});
  BOOST_CHECK((column_of(filled, "n") == std::vector<real>{-1, 2}));
  BOOST_CHECK((filled.names("c") == Fields{"NA", "none"} && filled.ids("c") == std::vector<int>{1, 0}));
}

BOOST_FIXTURE_TEST_CASE(tables_that_cannot_be, Fixture) {
  const std::string content = "n,c\n1,x\nx,y\n";
  check_error<FormatError>([&] { table(content, {.numbers = {{"n"}}}); }, {"x.csv:3:1: n is 'x', not a finite number"});
  check_error<FormatError>([&] { table(content, {.numbers = {{"m"}}}); }, {"x.csv:1:1: has no column m but 'n', 'c'"});
  check_error<FormatError>([&] { table("n\n", {.numbers = {{"n"}}}); }, {"x.csv: has no records"});
  check_error<ArgumentError>([&] { table(content, {.numbers = {{"n"}, {"n"}}}); }, {"the column n is asked for twice"});
  check_error<ArgumentError>([&] { table(content, {.numbers = {{"c"}}, .categories = {{"c"}}}); }, {"asked for twice"});
  const CategoryColumn twice{.name = "c", .names = {"x", "y", "x"}};
  check_error<ArgumentError>([&] { table(content, {.categories = {twice}}); }, {"the category x of c"});
  if constexpr (sizeof(real) == sizeof(float))
    check_error<FormatError>([&] { table("n\n1e39\n", {.numbers = {{"n"}}}); },
                             {"x.csv:2:1: n is 1e39, beyond single"});
}

// A file with any bit changed is refused with its place, or read.
BOOST_FIXTURE_TEST_CASE(every_bit_damaged, Fixture) {
  const std::string whole = "n,\"c\"\r\n1.5,\"x \"\"y\"\"\"\r\n-2,z\r\n";
  int read = 0, refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    try {
      const Table rows = table(damaged, {.numbers = {{"n"}}, .categories = {{"c"}}});
      ++read;
      BOOST_CHECK(rows.size() == 1 || rows.size() == 2);
      BOOST_CHECK_EQUAL(rows.features({"n"}).size(), rows.ids("c").size());
    } catch (const FormatError& e) {
      ++refused;
      BOOST_CHECK(std::string(e.what()).find("x.csv:") != std::string::npos);
    }
  }
  BOOST_CHECK(read > 20 && refused > 50);
}
