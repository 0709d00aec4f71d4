// Arrays of NumPy: against bytes written by hand, against NumPy itself, and with every byte damaged.
#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/npy.h>

#include "support/errors.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace seppo;
using test::check_error;
using test::Folder;
using test::read;
namespace fs = std::filesystem;

namespace {

using Sizes = std::vector<std::int64_t>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string reversed(std::string bytes) { return {bytes.rbegin(), bytes.rend()}; }

// A file with this dictionary.
std::string file_of(const std::string& dictionary, const std::string& values, char version = 1) {
  const std::string header = dictionary + "\n";
  std::string length;
  for (std::size_t i = 0; i < (version == 1 ? 2u : 4u); ++i) length += static_cast<char>(header.size() >> 8 * i & 0xFF);
  return std::string("\x93NUMPY") + version + '\0' + length + header + values;
}

std::string array_of(const std::string& type, const std::string& shape, const std::string& values, char version = 1,
                     const std::string& is_fortran = "False") {
  return file_of("{'descr': '" + type + "', 'fortran_order': " + is_fortran + ", 'shape': " + shape + ", }", values,
                 version);
}

struct Fixture {
  Folder folder{"npy"};
  fs::path path = folder.path / "x.npy";

  NpyFile open(const std::string& content) const {
    folder.write("x.npy", content);
    return NpyFile(path);
  }
  template <class T>
  std::vector<T> values(const std::string& content) const {
    return open(content).values<T>();
  }
  void check_refused(const std::string& content, const std::string& why) const {
    check_error<FormatError>([&] { open(content).values<int>(); }, {"x.npy: ", why});
  }
};

template <class T>
void check_type(const Fixture& f, const std::string& type, const std::vector<T>& values,
                const std::vector<double>& as) {
  const std::string shape = "(" + std::to_string(values.size()) + ",)";
  BOOST_TEST_CONTEXT(type) {
    BOOST_CHECK(f.values<double>(array_of("<" + type, shape, bytes_of(values))) == as);
    std::string big;
    for (const T value : values) big += reversed(bytes_of(std::vector<T>{value}));
    BOOST_CHECK(f.values<double>(array_of(">" + type, shape, big)) == as);
    BOOST_CHECK(f.values<double>(array_of("=" + type, shape, bytes_of(values), 2)) == as);
  }
}

// Debian's, whatever other Python is installed; empty if it lacks NumPy.
std::string python_with_numpy() {
  const std::string python = "/usr/bin/python3";
  if (std::system((python + " -c 'import numpy' > /dev/null 2>&1").c_str()) == 0) return python;
  std::cout << "skipped: NumPy; install Debian's python3-numpy\n";
  return "";
}

void run_python(const std::string& python, const Folder& folder, const std::string& script) {
  folder.write("script.py", script);
  const std::string command = "cd '" + folder.path.string() + "' && " + python + " script.py > out.txt 2> err.txt";
  BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, read(folder.path / "err.txt"));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(types_and_byte_orders, Fixture) {
  const double least = -9223372036854775808.0;
  check_type<std::int8_t>(*this, "i1", {-128, 127}, {-128, 127});
  check_type<std::int16_t>(*this, "i2", {-32768, 258}, {-32768, 258});
  check_type<std::int32_t>(*this, "i4", {-2147483647, 258}, {-2147483647, 258});
  check_type<std::int64_t>(*this, "i8", {std::numeric_limits<std::int64_t>::min(), 258}, {least, 258});
  check_type<std::uint8_t>(*this, "u1", {0, 255}, {0, 255});
  check_type<std::uint16_t>(*this, "u2", {65535, 258}, {65535, 258});
  check_type<std::uint32_t>(*this, "u4", {4294967295u, 258}, {4294967295.0, 258});
  check_type<std::uint64_t>(*this, "u8", {std::uint64_t{1} << 63, 258}, {-least, 258});
  check_type<float>(*this, "f4", {1.5f, -3e38f}, {1.5, double{-3e38f}});
  check_type<double>(*this, "f8", {0.1, -HUGE_VAL}, {0.1, -HUGE_VAL});
  check_type<std::uint16_t>(*this, "f2", {0x3c00, 0xc000, 0x7bff, 0x0001}, {1, -2, 65504, std::ldexp(1, -24)});
  check_type<std::uint8_t>(*this, "b1", {1, 0}, {1, 0});
  BOOST_CHECK(std::isnan(values<double>(array_of("<f4", "(1,)", bytes_of(std::vector<float>{std::nanf("")})))[0]));
}

// A megabyte is read at once.
BOOST_FIXTURE_TEST_CASE(values_of_several_pieces, Fixture) {
  constexpr std::size_t kPiece = (1 << 20) / sizeof(std::int32_t);
  for (const std::size_t count : {kPiece - 1, kPiece, kPiece + 1, 2 * kPiece + 3}) {
    std::vector<std::int32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), -7);
    BOOST_CHECK(values<std::int32_t>(array_of("<i4", "(" + std::to_string(count) + ",)", bytes_of(numbers))) ==
                numbers);
  }
}

BOOST_FIXTURE_TEST_CASE(headers_of_all_forms, Fixture) {
  const std::string six = bytes_of(std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5});
  for (const char version : {'\1', '\2', '\3'}) {
    const NpyFile file = open(array_of("|u1", "(2, 3)", six, version));
    BOOST_CHECK(file.type() == "|u1" && file.shape() == (Sizes{2, 3}) && file.size() == 6 && !file.is_fortran_order());
    BOOST_CHECK((file.values<int>() == std::vector<int>{0, 1, 2, 3, 4, 5}));
  }
  const std::vector<std::string> dictionaries{
      R"({"shape":(6,),"descr":"|u1","fortran_order":False})",
      "{'fortran_order': False, 'descr': 'u1', 'shape': (6L,)}      ",
      " { 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 6 , ) , } ",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 1, 3, 1, 1, 1, 1), }"};
  for (const std::string& dictionary : dictionaries)
    BOOST_CHECK((values<std::int64_t>(file_of(dictionary, six)) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  const NpyFile scalar = open(array_of("<f8", "()", bytes_of(std::vector<double>{7})));
  BOOST_CHECK(scalar.shape().empty() && scalar.values<float>() == std::vector<float>{7});
  BOOST_CHECK(values<float>(array_of("<f8", "(3, 0)", "")).empty());
}

BOOST_FIXTURE_TEST_CASE(the_first_axis_may_vary_fastest, Fixture) {
  std::vector<int> row_major, fortran(2 * 3 * 4);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) {
        row_major.push_back(100 * i + 10 * j + k);
        fortran[static_cast<std::size_t>(i + 2 * j + 6 * k)] = row_major.back();
      }
  const NpyFile file = open(array_of("<i4", "(2, 3, 4)", bytes_of(fortran), 1, "True"));
  BOOST_CHECK(file.is_fortran_order() && file.values<int>() == row_major);
  BOOST_CHECK(values<int>(array_of("<i4", "(2, 0, 4)", "", 1, "True")).empty());
  BOOST_CHECK(values<int>(array_of("<i4", "(24,)", bytes_of(fortran), 1, "True")) == fortran);
}

BOOST_FIXTURE_TEST_CASE(values_that_a_type_cannot_have, Fixture) {
  const auto doubles = [](const std::vector<double>& values) {
    return array_of("<f8", "(" + std::to_string(values.size()) + ",)", bytes_of(values));
  };
  const auto refuses = [&](auto type, const std::vector<double>& numbers, const std::string& why) {
    check_error<FormatError>([&] { values<decltype(type)>(doubles(numbers)); }, {"x.npy: value ", why});
  };
  refuses(0, {1, 2.5}, "1, 2.5, is no int");
  refuses(0, {2147483648.0}, "0, 2147483648, is no int");
  refuses(0, {std::nan("")}, "is no int");
  refuses(std::int64_t{0}, {9223372036854775808.0}, "is no std::int64_t");
  refuses(0.0f, {0, 1e39}, "1, 1e+39, is no float");
  BOOST_CHECK((values<int>(doubles({-2147483648.0, 2147483647.0})) ==
               std::vector<int>{std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}));
  BOOST_CHECK(values<float>(doubles({-HUGE_VAL}))[0] == -HUGE_VALF);
  check_refused(array_of("<u8", "(1,)", bytes_of(std::vector<std::uint64_t>{1ull << 31})),
                "value 0, 2147483648, is no int");
  check_refused(array_of("|b1", "(2,)", "\1\2"), "value 1, 2, is no int");
}

BOOST_FIXTURE_TEST_CASE(what_is_not_read_is_refused_by_name, Fixture) {
  for (const char* type : {"<c8", "<U10", "|S5", "|O", "<M8[ns]", "<f16", "<f3", "|f4", "|i8", "", "<", "f", "<b2"})
    check_refused(array_of(type, "(0,)", ""), "values of type " + std::string(type) + " are not read");
  check_refused(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,), }", ""), "has records");
  check_refused(std::string("PK\3\4") + std::string(40, 'x'), "is an .npz archive");
  check_refused("", "is not a .npy file");
  check_refused("id,name\n1,a long enough text\n", "is not a .npy file");
  check_refused(array_of("<f4", "(0,)", "", 4), "has version 4.0 of the format");
  check_refused(array_of("<f4", "(0,)", "", 0), "has version 0.0 of the format");
  BOOST_CHECK_THROW(NpyFile("/nowhere"), FileError);
  BOOST_CHECK_THROW(NpyFile("/tmp"), FileError);
}

BOOST_FIXTURE_TEST_CASE(headers_that_lie, Fixture) {
  const auto with_shape = [](const std::string& shape) { return array_of("<f4", shape, std::string(8, 'x')); };
  check_refused(with_shape("(3,)"), "ends before its values");
  check_refused(with_shape("(1,)"), "has 8 bytes of values, not 1 times 4");
  check_refused(with_shape("(1000000000000,)"), "ends before its values");
  check_refused(with_shape("(4611686018427387904, 4)"), "ends before its values");
  check_refused(with_shape("(9223372036854775807, 9223372036854775807)"), "ends before its values");
  check_refused(with_shape("(0, 9223372036854775807)"), "has 8 bytes of values, not 0 times 4");
  for (const char* shape : {"(9223372036854775808,)", "(-2,)", "(2.0,)", "(,)", "(a,)"})
    check_refused(with_shape(shape), "of the header:");
  for (const char* shape : {"(2)", "2", "[2]", "(2,", "(1, 2"}) check_refused(with_shape(shape), "is missing");
  std::string axes = "(2,";
  for (int i = 0; i < 64; ++i) axes += "1,";
  check_refused(with_shape(axes + ")"), "too many axes");
  const std::string whole = with_shape("(2,)");
  for (std::size_t size = 0; size < whole.size(); ++size) check_refused(whole.substr(0, size), "");
  check_refused(whole + "x", "has 9 bytes of values");

  const auto refuses = [&](const std::string& dictionary, const std::string& why) {
    check_refused(file_of(dictionary, ""), "of the header: " + why);
  };
  refuses("{'descr': '<f4', 'shape': (0,)}", "'descr', 'fortran_order' or 'shape' is missing");
  refuses("{'descr': '<f4', 'descr': '<f4'}", "a key comes twice");
  refuses("{'descr': '<f4', 'fortran_order': 0, 'shape': (0,)}", "'False' is missing");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} {}", "there is more");
  refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), 'x': 1}", "the key x is not");
  refuses("{'descr", "a string does not end");
  refuses("{descr", "a string is missing");
}

// A file with any byte changed is refused, or has as many values as its header says.
BOOST_FIXTURE_TEST_CASE(every_byte_damaged, Fixture) {
  const std::string whole = array_of("<f4", "(2, 3)", bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}));
  const std::size_t values_begin = whole.size() - 24;
  int accepted = 0, refused = 0;
  for (std::size_t at = 0; at < values_begin; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      try {
        const NpyFile file = open(damaged);
        const std::vector<double> values = file.values<double>();
        ++accepted;
        std::int64_t elements = 1;
        for (const std::int64_t size : file.shape()) elements *= size;
        BOOST_CHECK_EQUAL(values.size(), elements);
        BOOST_CHECK_EQUAL(values.size() * static_cast<std::size_t>(file.type().back() - '0'), 24);
      } catch (const FormatError&) {
        ++refused;
      }
    }
  BOOST_CHECK_MESSAGE(accepted > 0 && refused > 500, accepted << " accepted, " << refused << " refused");
}

BOOST_FIXTURE_TEST_CASE(features_of_an_array, Fixture) {
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  write_npy(path, {3, 2, 1}, six);
  const Features examples = read_features(path);
  BOOST_CHECK(examples.size() == 3 && examples.shape() == (Shape{2, 1}) && examples[2][1] == 6);
  write_npy(path, {6}, six);
  BOOST_CHECK(read_features(path).size() == 6 && read_features(path).shape().rank() == 0);
  write_npy(path, {}, std::vector<float>{1});
  check_error<ShapeError>([&] { read_features(path); }, {"x.npy: has no axis"});
  folder.write("x.npy", array_of("<f4", "(0, 3000000000)", ""));
  check_error<ShapeError>([&] { read_features(path); }, {"an axis of 3000000000 is too long"});
}

BOOST_FIXTURE_TEST_CASE(what_is_written_is_read, Fixture) {
  const std::vector<double> doubles{0.1, -2, 1e300};
  const std::vector<int> ints{-5, 0, std::numeric_limits<int>::max()};
  const std::vector<std::int64_t> longs{-5, 0, std::numeric_limits<std::int64_t>::max()};
  write_npy(path, {3}, doubles);
  BOOST_CHECK(NpyFile(path).values<double>() == doubles && NpyFile(path).type() == "<f8");
  BOOST_CHECK_EQUAL((fs::file_size(path) - 24) % 64, 0);
  write_npy(path, {1, 3}, ints);
  BOOST_CHECK(NpyFile(path).values<int>() == ints && NpyFile(path).shape() == (Sizes{1, 3}));
  write_npy(path, {3, 1}, longs);
  BOOST_CHECK(NpyFile(path).values<std::int64_t>() == longs);
  check_error<ShapeError>([&] { write_npy(path, {2}, ints); }, {"write_npy: shape [2] has 2 elements, 3 values given"});
  BOOST_CHECK(NpyFile(path).values<std::int64_t>() == longs);
  BOOST_CHECK_THROW(write_npy("/nowhere/x.npy", {3}, ints), FileError);
}

BOOST_AUTO_TEST_CASE(what_numpy_writes_is_read) {
  const std::string python = python_with_numpy();
  if (python.empty()) return;
  const Folder folder("npy");
  run_python(python, folder, R"(
import itertools
import numpy as np
types = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
shapes = [(), (5,), (1, 0), (2, 3, 4)]
for t, (s, shape), order, byte in itertools.product(types, enumerate(shapes), "CF", "<>"):
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(byte + t)
    a = np.asarray(a, order=order)
    for version in 1, 2, 3:
        with open(f"{t}-{s}-{order}-{'lb'[byte == '>']}-{version}.npy", "wb") as f:
            np.lib.format.write_array(f, a, version=(version, 0))
)");
  int seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path)) {
    if (entry.path().extension() != ".npy") continue;
    ++seen;
    const std::string name = entry.path().filename();
    const NpyFile file(entry.path());
    const Sizes shape = std::vector<Sizes>{{}, {5}, {1, 0}, {2, 3, 4}}[static_cast<std::size_t>(name[3] - '0')];
    std::vector<double> expected;
    for (std::size_t i = 0; i < file.size(); ++i)
      expected.push_back(name.starts_with("b1") && i > 0 ? 1 : static_cast<double>(i));
    BOOST_CHECK_MESSAGE(file.shape() == shape && file.values<double>() == expected, name);
  }
  BOOST_CHECK_EQUAL(seen, 12 * 4 * 2 * 2 * 3);
}

BOOST_AUTO_TEST_CASE(numpy_reads_what_is_written) {
  const std::string python = python_with_numpy();
  if (python.empty()) return;
  const Folder folder("npy");
  write_npy(folder.path / "f4.npy", {2, 3}, std::vector<float>{0, 1, 2, 3, 4, 5});
  write_npy(folder.path / "f8.npy", {6}, std::vector<double>{0, 1, 2, 3, 4, 5});
  write_npy(folder.path / "i4.npy", {1, 6, 1}, std::vector<int>{0, 1, 2, 3, 4, 5});
  write_npy(folder.path / "i8.npy", {3, 2}, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  write_npy(folder.path / "one.npy", {}, std::vector<float>{7});
  write_npy(folder.path / "none.npy", {0, 2}, std::vector<float>{});
  run_python(python, folder, R"(
import numpy as np
for name, shape in ("f4", (2, 3)), ("f8", (6,)), ("i4", (1, 6, 1)), ("i8", (3, 2)):
    a = np.load(name + ".npy")
    assert a.dtype == "<" + name and a.shape == shape and (a.ravel() == np.arange(6)).all(), (name, a)
one = np.load("one.npy")
assert one.shape == () and one == 7
assert np.load("none.npy").shape == (0, 2)
)");
}
