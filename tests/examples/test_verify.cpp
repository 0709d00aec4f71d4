// seppo verify: a line for each file, which names the damaged tensors, and an exit code that tells.
// needs: programs: inspect
#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

using namespace test;

namespace {

Stored content() {
  return {{{"key", "value"}},
          {{"layers.0.weight", "U8", {7}, std::vector<std::byte>(7)},
           {"layers.0.weight2", "U8", {4}, std::vector<std::byte>(4)},
           {"scales\xc2\x9b", "F8_E8M0", {2}, std::vector<std::byte>(2)}}};
}

void damage(const fs::path& path, std::size_t from_the_end) {
  std::string content = read(path);
  content[content.size() - from_the_end] ^= 1;
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_damaged_tensor_is_named) {
  const Folder folder("verify");
  write_stored(folder.path / "f", content());
  const Result whole = folder.run({"seppo", "verify", "f"});
  BOOST_CHECK_EQUAL(whole.code, 0);
  const std::string size = std::to_string(fs::file_size(folder.path / "f"));
  BOOST_CHECK_EQUAL(whole.out, "f: whole, as it was written: 3 tensors, " + size + " bytes\n");
  BOOST_CHECK_EQUAL(whole.err, "");
  damage(folder.path / "f", 4);
  const Result damaged = folder.run({"seppo", "verify", "f"});
  BOOST_CHECK_EQUAL(damaged.code, 1);
  BOOST_CHECK_EQUAL(damaged.err, "f: damaged: tensor layers.0.weight2\n");
  BOOST_CHECK_EQUAL(damaged.out, "");
  damage(folder.path / "f", 1);
  const Result json = folder.run({"seppo", "verify", "f", "--json"});
  BOOST_CHECK_EQUAL(json.code, 1);
  BOOST_CHECK_EQUAL(last_line(json.out)["whole"], false);
  BOOST_CHECK_EQUAL(last_line(json.out)["damage"].dump(), R"(["tensor layers.0.weight2","tensor scales\\xc2\\x9b"])");
}

// One damaged file among others does not end the check; folders are searched, other files in them passed over.
BOOST_AUTO_TEST_CASE(every_file_of_a_folder_is_checked) {
  const Folder folder("verify");
  fs::create_directories(folder.path / "run/checkpoints");
  fs::create_directories(folder.path / "empty");
  for (const char* name : {"run/model.safetensors", "run/checkpoints/10.safetensors", "run/checkpoints/20.safetensors"})
    write_stored(folder.path / name, content());
  folder.write("run/log.txt", "text");
  BOOST_CHECK_EQUAL(folder.run({"seppo", "verify", "run"}).code, 0);
  damage(folder.path / "run/checkpoints/10.safetensors", 8);
  folder.write("run/checkpoints/20.safetensors", read(folder.path / "run/model.safetensors").substr(0, 400));
  const Result r = folder.run({"seppo", "verify", "run"});
  BOOST_CHECK_EQUAL(r.code, 1);
  BOOST_CHECK_MESSAGE(r.err.starts_with("run/checkpoints/10.safetensors: damaged: tensor layers.0.weight\n"
                                        "run/checkpoints/20.safetensors: damaged: "),
                      r.err);
  BOOST_CHECK_MESSAGE(r.out.starts_with("run/model.safetensors: whole"), r.out);
  check_refused(folder, {"seppo", "verify", "empty"}, 2, "'empty' has no safetensors file");
  check_refused(folder, {"seppo", "verify", "none"}, 2, "there is no file 'none'");
  check_refused(folder, {"seppo", "verify"}, 2, "verify takes files");
}

// Files of other tools have no digest; their layout is checked.
BOOST_AUTO_TEST_CASE(a_file_without_a_digest_is_only_complete) {
  const Folder folder("verify");
  const std::string header = R"({"w":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})";
  const std::string length{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  folder.write("foreign", length + header + "ab");
  const Result r = folder.run({"seppo", "verify", "foreign"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.find("complete, but without a digest to check: 1 tensors") == 9, r.out);
  const Result table = folder.run({"seppo", "inspect", "foreign"});
  BOOST_CHECK_MESSAGE(table.out.find("\nw      F4    [4]                     -         -") != table.out.npos,
                      table.out);
  const Result json = folder.run({"seppo", "inspect", "foreign", "--json"});
  BOOST_CHECK_EQUAL(last_line(json.out)["tensors"][0]["elements"], 4);
  BOOST_CHECK(!last_line(json.out)["tensors"][0].contains("mean"));
  check_refused(folder, {"seppo", "inspect", "foreign", "--tensor", "w", "--npy", "w.npy"}, 2, "no type for F4");
  folder.write("foreign", length + header + "a");
  const Result cut = folder.run({"seppo", "verify", "foreign"});
  BOOST_CHECK_MESSAGE(cut.code == 1 && cut.err.find("truncated, in tensor w") != cut.err.npos, cut.err);
}
