// seppo inspect: what it reports about a file is true, and damaged files are refused.
// needs: programs: inspect
#include "inspect/statistics.h"
#include "support/program.h"
#include "support/stored.h"

#include <seppo/autograd/core/random.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>

using namespace test;

namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(statistics_follow_their_definition) {
  const Folder folder("inspect");
  seppo::RandomStream random(3, seppo::Purpose::test);
  std::vector<double> values;
  for (int i = 0; i < 1001; ++i) values.push_back(1e3 + random.normal());
  values[5] = 0;
  double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  const double mean = sum / 1001;
  for (const double x : values) squares += (x - mean) * (x - mean);
  const double least = *std::min_element(values.begin(), values.end()),
               most = *std::max_element(values.begin(), values.end());
  std::vector<float> broken{1, -3, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  write_stored(folder.path / "f",
               {{{"k", "v"}}, {{"a", "F64", {7, 143}, bytes_of(values)}, {"b", "F32", {4}, bytes_of(broken)}}});
  const Result r = folder.run({"seppo", "inspect", "f", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto tensors = last_line(r.out)["tensors"];
  BOOST_CHECK_CLOSE(tensors[0]["mean"].get<double>(), mean, 1e-10);
  BOOST_CHECK_CLOSE(tensors[0]["std"].get<double>(), std::sqrt(squares / 1001), 1e-9);
  BOOST_CHECK_EQUAL(tensors[0]["min"].get<double>(), least);
  BOOST_CHECK_EQUAL(tensors[0]["max"].get<double>(), most);
  BOOST_CHECK_EQUAL(tensors[0]["zeros"], 1);
  BOOST_CHECK_EQUAL(tensors[0]["shape"][1], 143);
  BOOST_CHECK_EQUAL(tensors[1]["not_finite"], 2);
  BOOST_CHECK_EQUAL(tensors[1]["mean"], -1);
  BOOST_CHECK_EQUAL(last_line(r.out)["parameters"], 1005);
  const std::string table = folder.run({"seppo", "inspect", "f"}).out;
  const std::size_t head = table.find("\ntensor"), first = table.find("\na "), second = table.find("\nb ");
  BOOST_CHECK(table.find(" F64 ", first) - first == table.find(" type ", head) - head);
  BOOST_CHECK(table.find('\n', first + 1) - first == table.find('\n', second + 1) - second);
  BOOST_CHECK_MESSAGE(table.find("zeros not finite\na ") != std::string::npos, table);
  BOOST_CHECK_MESSAGE(table.find("-1         2         -3          1        0          2\n") != std::string::npos,
                      table);
  BOOST_CHECK_MESSAGE(table.ends_with("\n\n1005 values\n"), table);
  // The optimiser's tensors are counted separately, and shown only on request.
  const std::string wide(40, 'w');
  write_stored(folder.path / "g", {{},
                                   {{"adam.m." + wide, "F32", {4}, bytes_of(broken)},
                                    {"adam.v", "F32", {4}, bytes_of(broken)},
                                    {"w", "F32", {4}, bytes_of(broken)}}});
  const std::string some = folder.run({"seppo", "inspect", "g"}).out,
                    all = folder.run({"seppo", "inspect", "g", "--all"}).out;
  BOOST_CHECK_MESSAGE(some.ends_with("\n\n4 values, and 2 tensors of the optimiser (--all)\n"), some);
  BOOST_CHECK_MESSAGE(all.ends_with("\n\n4 values\n"), all);
  BOOST_CHECK(some.find("adam") == some.npos && some.find("\nw      F32") != some.npos);
  BOOST_CHECK(all.find("\nadam.m." + wide + " F32") != all.npos && all.find("\nadam.v ") != all.npos);
}

// A sparse file: 256 MB of zeros, and one value at the end.
BOOST_AUTO_TEST_CASE(a_large_tensor_takes_little_memory) {
  const Folder folder("inspect");
  const std::string header = R"({"w":{"dtype":"F64","shape":[32000001],"data_offsets":[0,256000008]}})";
  const std::uint64_t size = header.size();
  const double last = 5;
  {
    std::ofstream file(folder.path / "f", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), 8) << header;
    file.seekp(256'000'000, std::ios::cur).write(reinterpret_cast<const char*>(&last), 8);
  }
  const Result r = folder.run({"seppo", "inspect", "f", "--json"});
  const auto tensor = last_line(r.out)["tensors"][0];
  BOOST_CHECK(tensor["max"] == 5 && tensor["zeros"] == 32'000'000 && tensor["elements"] == 32'000'001);
  if (!takes_memory_itself()) BOOST_CHECK_LT(r.peak_mb, 100);
  const Result exported = folder.run({"seppo", "inspect", "f", "--tensor", "w", "--npy", "w.npy"});
  BOOST_CHECK_EQUAL(exported.code, 0);
  BOOST_CHECK_EQUAL(fs::file_size(folder.path / "w.npy") % 64, 8);
  if (!takes_memory_itself()) BOOST_CHECK_LT(exported.peak_mb, 100);
}

// F16 and BF16 values against the numbers that their bits represent.
BOOST_AUTO_TEST_CASE(short_floats_are_widened_exactly) {
  const std::vector<std::uint16_t> halves{0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff,
                                          0x0001, 0x03ff, 0x0400, 0x3555, 0x7c00};
  const std::vector<double> expected{
      0, -0.0, 1, -2, 65504, std::ldexp(1, -24), std::ldexp(1023, -24), std::ldexp(1, -14), 0.333251953125, HUGE_VAL};
  BOOST_CHECK(inspect::numbers_of("F16", bytes_of(halves)) == expected);
  BOOST_CHECK(std::isnan(inspect::numbers_of("F16", bytes_of(std::vector<std::uint16_t>{0x7c01}))[0]));
  const std::vector<std::uint16_t> brains{0x3f80, 0xc000, 0x0000, 0x7f80, 0x4049};
  BOOST_CHECK((inspect::numbers_of("BF16", bytes_of(brains)) == std::vector<double>{1, -2, 0, HUGE_VAL, 3.140625}));
  BOOST_CHECK((inspect::numbers_of("I64", bytes_of(std::vector<std::int64_t>{-5, 7})) == std::vector<double>{-5, 7}));
}

namespace {

template <class T>
void check_ends(const char* dtype) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> ends{Limits::lowest(), Limits::max(), T{1}};
  const std::vector<double> expected{static_cast<double>(ends[0]), static_cast<double>(ends[1]), 1};
  BOOST_CHECK_MESSAGE(inspect::numbers_of(dtype, bytes_of(ends)) == expected, dtype);
}

}  // namespace

// The least and the largest number of each type.
BOOST_AUTO_TEST_CASE(numbers_of_all_types) {
  check_ends<std::int8_t>("I8");
  check_ends<std::uint8_t>("U8");
  check_ends<std::int16_t>("I16");
  check_ends<std::uint16_t>("U16");
  check_ends<std::int32_t>("I32");
  check_ends<std::uint32_t>("U32");
  check_ends<std::int64_t>("I64");
  check_ends<std::uint64_t>("U64");
  check_ends<float>("F32");
  check_ends<double>("F64");
}

BOOST_AUTO_TEST_CASE(a_tensor_becomes_an_array_of_numpy) {
  const Folder folder("inspect");
  const std::vector<float> values{1.5f, -2, 3e-9f, 4, 5, 6};
  write_stored(folder.path / "f", {{},
                                   {{"w.x", "F32", {2, 3}, bytes_of(values)},
                                    {"b", "BF16", {2}, bytes_of(std::vector<std::uint16_t>{0x3f80, 0xc000})}}});
  BOOST_REQUIRE_EQUAL(folder.run({"seppo", "inspect", "f", "--tensor", "w.x", "--npy", "w.npy"}).code, 0);
  const auto check_array = [&](const std::string& name, const std::string& shape, const std::vector<float>& expected) {
    const std::string file = read(folder.path / name);
    BOOST_REQUIRE_EQUAL(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const std::size_t header = static_cast<unsigned char>(file[8]) + 256u * static_cast<unsigned char>(file[9]);
    BOOST_CHECK_EQUAL((10 + header) % 64, 0);
    BOOST_CHECK_NE(file.find("'descr': '<f4', 'fortran_order': False, 'shape': " + shape), std::string::npos);
    BOOST_REQUIRE_EQUAL(file.size(), 10 + header + 4 * expected.size());
    BOOST_CHECK(std::memcmp(&file[10 + header], expected.data(), 4 * expected.size()) == 0);
  };
  check_array("w.npy", "(2,3,)", values);
  BOOST_REQUIRE_EQUAL(folder.run({"seppo", "inspect", "f", "--tensor", "b", "--npy", "b.npy"}).code, 0);
  check_array("b.npy", "(2,)", {1, -2});
  check_refused(folder, {"seppo", "inspect", "f", "--tensor", "none", "--npy", "n.npy"}, 2, "has no tensor 'none'");
  check_refused(folder, {"seppo", "inspect", "f", "--npy", "n.npy"}, 2, "one needs the other");
  for (const std::string option : {"--all", "--config", "--json"})
    check_refused(folder, {"seppo", "inspect", "f", "--tensor", "b", "--npy", "n.npy", option}, 2,
                  option + ": cannot be given with --npy");
  check_refused(folder, {"seppo", "inspect", "f", "--tensor", "b", "--npy", "no/such/n.npy"}, 2, "--npy");
}

// Facts in the metadata are shown; missing ones are left out.
BOOST_AUTO_TEST_CASE(facts_of_the_metadata) {
  const Folder folder("inspect");
  const auto look = [&](const std::map<std::string, std::string>& metadata) {
    write_stored(folder.path / "f", {metadata, {{"w", "F32", {1}, bytes_of(std::vector<float>{1})}}});
    const Result r = folder.run({"seppo", "inspect", "f", "--config"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return r.out;
  };
  const auto tells = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string all = look({{"seppo.config", R"({"model":{},"program":"p","vocabulary":["xyz"],"text":"é"})"},
                                {"seppo.steps", "7"},
                                {"seppo.run", R"({"data":"d1","best":[3,0.5,2]})"},
                                {"by", "me"}});
  for (const char* part :
       {"program    p\n", "step       7: ", "data       digest d1\n", "best       after step 3: score 0.5, loss 2\n",
        "\nby: me\n", "\"vocabulary\": \"not shown\"", "\\u00e9"})
    BOOST_CHECK_MESSAGE(tells(all, part), part << " is not in " << all);
  BOOST_CHECK(!tells(all, "xyz") && !tells(all, "languages"));
  const std::string none =
      look({{"seppo.config", R"({"model":{}})"}, {"seppo.run", R"({"data":"d1","best":[1,2,3,4]})"}});
  BOOST_CHECK_MESSAGE(
      !tells(none, "program") && !tells(none, "step") && !tells(none, "best") && tells(none, "digest d1"), none);
  for (const char* run : {"[1]", "7"}) BOOST_CHECK(!tells(look({{"seppo.run", run}}), "data  "));
  BOOST_CHECK(!tells(look({{"by", "me"}}), "{"));
  const Result plain = folder.run({"seppo", "inspect", "f"});
  BOOST_CHECK(!tells(plain.out, "by: me"));
  for (const auto& [key, most] : {std::pair{"by", 400u}, {"seppo.steps", 200u}})  // longer values are cut
    for (const unsigned more : {0u, 1u}) {
      const std::string tail = key == std::string("by") ? "" : ": a checkpoint to go on from with --resume",
                        value(most + more - tail.size(), 'v');
      BOOST_CHECK_EQUAL(tells(look({{key, value}}), (value + tail + "\n").c_str()), more == 0);
    }
}

BOOST_AUTO_TEST_CASE(damage_and_strangers) {
  const Folder folder("inspect");
  write_stored(folder.path / "f", {{{"k", "v"}}, {{"w\xc2\x9b", "F32", {2}, bytes_of(std::vector<float>{1, 2})}}});
  const Result good = folder.run({"seppo", "inspect", "f"});
  BOOST_CHECK_MESSAGE(good.code == 0 && good.out.find(", right") != std::string::npos &&
                          good.out.find("w\\xc2\\x9b") != std::string::npos,
                      good.out);
  std::string content = read(folder.path / "f");
  content.back() = static_cast<char>(content.back() ^ 1);
  std::ofstream(folder.path / "damaged", std::ios::binary) << content;
  check_refused(folder, {"seppo", "inspect", "damaged"}, 1, "damaged: tensor w\\xc2\\x9b");
  const std::string header = R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::uint64_t size = header.size();
  std::string foreign(8, '\0');
  std::memcpy(foreign.data(), &size, 8);
  std::ofstream(folder.path / "foreign", std::ios::binary) << foreign + header + "ab";
  const Result r = folder.run({"seppo", "inspect", "foreign"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.find("none: not written by seppo") != std::string::npos, r.out << r.err);
  check_refused(folder, {"seppo", "inspect", "missing"}, 2, "missing");
  check_refused(folder, {"seppo", "inspect", "."}, 2, "folder");
  check_refused(folder, {"seppo", "inspect"}, 2, "takes one");
}

// --json has the configuration and other metadata too, if asked for.
BOOST_AUTO_TEST_CASE(the_model_in_a_folder) {
  const Folder folder("inspect");
  fs::create_directories(folder.path / "run");
  fs::create_directories(folder.path / "empty");
  const std::vector<float> values{1, 2};
  write_stored(folder.path / "run/model.safetensors", {{{"k", "v"}}, {{"a", "F32", {2}, bytes_of(values)}}});
  const Result r = folder.run({"seppo", "inspect", "run", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(last_line(r.out)["parameters"], 2);
  check_refused(folder, {"seppo", "inspect", "empty"}, 2, "seppo: 'empty' is a folder, not a file");
  check_refused(folder, {"seppo", "inspect", "nowhere"}, 2, "seppo: there is no file 'nowhere'");
}

BOOST_AUTO_TEST_CASE(json_has_the_configuration_if_asked_for) {
  const Folder folder("inspect");
  write_stored(folder.path / "f", {{{"by", "me"}, {"seppo.config", R"({"model":{"lr":0.5},"vocabulary":["a"]})"}},
                                   {{"w", "F32", {1}, bytes_of(std::vector<float>{1})}}});
  const auto look = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"seppo", "inspect", "f", "--json"});
    const Result r = folder.run(more);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return last_line(r.out);
  };
  const auto brief = look({}), full = look({"--config"});
  BOOST_CHECK(!brief.contains("config") && !brief.contains("metadata"));
  BOOST_CHECK_EQUAL(full["config"]["model"]["lr"], 0.5);
  BOOST_CHECK_EQUAL(full["config"]["vocabulary"], "not shown");
  BOOST_CHECK_EQUAL(full["metadata"]["by"], "me");
  BOOST_CHECK_EQUAL(full["metadata"].size(), 1u);
}
