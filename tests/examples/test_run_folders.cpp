// What a program does about its folders and files when somebody else has touched them: removed them, linked them,
// damaged them, or named an input as an output. Nothing of another is overwritten, and the reason is told in one line.
// needs: programs: all
#include <seppo/nn/run/run_folder.h>
#include "app/training.h"
#include "support/run_files.h"
#include "support/stored.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

using namespace test;

namespace {

const std::string kTiny =
    "addsub train --d-model 8 --heads 1 --d-ff 8 --enc-layers 1 --dec-layers 1 --batch-size 8 --epoch-steps 5 "
    "--log-format none ";

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A run with checkpoints of the steps 5 and 10.
void train(const Folder& folder, const std::string& out) {
  const Result r = folder.run(words(kTiny + "--epochs 2 --eval-interval 1 --out " + out));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
}

void flip_a_bit(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-5, std::ios::end);
  const char byte = static_cast<char>(stream.get() ^ 4);
  stream.seekp(-5, std::ios::end);
  stream.put(byte);
}

}  // namespace

// Each function that would write notices that the folder is gone, or is another one by now.
BOOST_AUTO_TEST_CASE(a_folder_that_was_removed_or_replaced) {
  const Folder base("run-folders");
  const fs::path root = base.path / "run", moved = base.path / "moved";
  for (const bool is_replaced : {false, true}) {
    seppo::RunFolder folder(root);
    folder.save_checkpoint(1, 2, writing("one"));
    fs::rename(root, moved);
    if (is_replaced) {
      fs::create_directories(root / "checkpoints");
      writing("of another")(root / "checkpoints/1.safetensors");
    }
    const auto refused = [&](const auto& f) {
      BOOST_CHECK_EXCEPTION(f(), seppo::FileError, [&](const seppo::FileError& e) {
        return says(e.what(), "run: was removed or replaced during this training");
      });
    };
    refused([&] { folder.check_locked(); });
    refused([&] { folder.save_checkpoint(2, 2, writing("two")); });
    refused([&] { folder.save_last(2, 2, writing("two")); });
    refused([&] { folder.save_model(writing("two")); });
    refused([&] { folder.go_on_from(0); });
    refused([&] { folder.clear(); });
    BOOST_CHECK_EQUAL(fs::exists(root), is_replaced);
    if (is_replaced) BOOST_CHECK_EQUAL(read(root / "checkpoints/1.safetensors"), "of another");
    fs::remove_all(root);
    fs::rename(moved, root);
    folder.save_checkpoint(2, 2, writing("two"));  // it is the folder that was locked
    fs::remove_all(root);
  }
}

// A training whose folder is removed ends, and the one that has begun there meanwhile is alone.
BOOST_AUTO_TEST_CASE(a_second_training_in_a_removed_folder, *boost::unit_test::precondition(ends_in_time)) {
  const Folder base("run-folders"), other("run-folders-other");
  const auto wait_for = [](const fs::path& file) {
    for (int i = 0; i < 3000 && !fs::exists(file); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    BOOST_REQUIRE(fs::exists(file));
  };
  const std::string out = (base.path / "out").string(), endless = kTiny + "--epochs 1000000 --report --out " + out;
  const pid_t first = base.start(words(endless + " --seed 1"));
  wait_for(base.path / "out/model.safetensors");
  fs::rename(base.path / "out", base.path / "removed");
  const pid_t second = other.start(words(endless + " --seed 2"));
  const Result ended = base.finish(first);
  BOOST_CHECK_EQUAL(ended.code, 74);
  BOOST_CHECK_MESSAGE(says(ended.err, "was removed or replaced during this training"), ended.err);
  wait_for(base.path / "out/model.safetensors");
  ::kill(second, SIGTERM);
  BOOST_CHECK_EQUAL(other.finish(second).code, 143);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(base.path / "out")) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto config = nlohmann::json::parse(read_stored(entry.path()).metadata["seppo.config"]);
    BOOST_CHECK_EQUAL(config["training"]["seed"], 2);
    ++files;
  }
  BOOST_CHECK_GE(files, 2);
}

// Whatever has the name of the newest checkpoint and cannot be read is passed over, and told.
BOOST_AUTO_TEST_CASE(a_newest_checkpoint_that_cannot_be_opened) {
  const Folder folder("run-folders");
  train(folder, "whole");
  const fs::path newest = folder.path / "run/checkpoints/10.safetensors";
  const std::vector<std::pair<std::string, std::function<void()>>> cases{
      {"a folder", [&] { fs::create_directories(newest / "with" / "content"); }},
      {"a pipe", [&] { ::mkfifo(newest.c_str(), 0600); }},
      {"a link to nothing", [&] { fs::create_symlink("nothing", newest); }},
      {"a link to itself", [&] { fs::create_symlink(newest.filename(), newest); }},
      {"half a file", [&] { std::ofstream(newest) << "12345678"; }},
      {"a file that nobody may read", [&] {
         std::ofstream(newest) << "x";
         ::chmod(newest.c_str(), 0);
       }}};
  for (const auto& [what, make] : cases) {
    fs::remove_all(folder.path / "run");
    fs::copy(folder.path / "whole", folder.path / "run", fs::copy_options::recursive);
    fs::remove(newest);
    make();
    const Result r = folder.run({"addsub", "train", "--resume", "run", "--log-format", "plain"});
    BOOST_CHECK_MESSAGE(r.code == 0 && says(r.err, "passed over: run/checkpoints/10.safetensors: ") &&
                            says(r.err, "goes on after step 5"),
                        what << ": " << r.code << " " << r.err);
    for (const char* file : {"model.safetensors", "checkpoints/10.safetensors"})
      BOOST_CHECK_MESSAGE(read(folder.path / "run" / file) == read(folder.path / "whole" / file), what << ": " << file);
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_of_which_none_can_be_read) {
  const Folder folder("run-folders");
  train(folder, "run");
  for (const char* step : {"5", "10"})
    flip_a_bit(folder.path / "run/checkpoints" / (step + std::string(".safetensors")));
  const Words resume{"addsub", "train", "--resume", "run"};
  for (const char* part : {"--resume: no checkpoint in 'run' can be read (2 tried): ", "checkpoints/10.safetensors: "})
    check_refused(folder, resume, 1, part);
  fs::remove(folder.path / "run/model.safetensors");
  check_refused(folder, {"addsub", "predict", "--model", "run", "1 + 2"}, 1,
                "--model: no checkpoint in 'run' can be read");
  flip_a_bit(folder.path / "run/checkpoints/5.safetensors");  // right again
  const Result r = folder.run({"addsub", "predict", "--model", "run", "1 + 2"});
  BOOST_CHECK_MESSAGE(r.code == 0 && says(r.err, "passed over: run/checkpoints/10.safetensors"), r.err);
}

// The state of a run in a checkpoint, with a digest that is right.
BOOST_AUTO_TEST_CASE(a_state_that_is_no_state) {
  const Folder folder("run-folders");
  train(folder, "run");
  const fs::path newest = folder.path / "run/checkpoints/10.safetensors";
  const Stored whole = read_stored(newest);
  for (const char* best : {"[]", "[1]", "[1,2]", "[\"1\",2,3]", "[1,null,3]", "[1,2,[]]", "[1.5,2,3]", "[-1,2,3]", "{}",
                           "7", "[1,2,3,4]"}) {
    Stored changed = whole;
    nlohmann::json state = nlohmann::json::parse(changed.metadata["seppo.run"]);
    state["best"] = nlohmann::json::parse(best);
    changed.metadata["seppo.run"] = state.dump();
    write_stored(newest, changed);
    check_refused(folder, {"addsub", "train", "--resume", "run", "--log-format", "none"}, 1,
                  "checkpoints/10.safetensors: seppo.run is not the state of a training");
  }
}

BOOST_AUTO_TEST_CASE(outputs_that_are_inputs) {
  const Folder folder("run-folders");
  folder.write("pairs", "a b\tx y\nb a\ty x\n");
  BOOST_REQUIRE_EQUAL(folder
                          .run(words("translate train --pairs pairs --val-pairs pairs --d-model 8 "
                                     "--heads 1 --d-ff 8 --max-steps 1 --log-format none --out m"))
                          .code,
                      0);
  fs::create_symlink("pairs", folder.path / "link");
  fs::create_hard_link(folder.path / "m/model.safetensors", folder.path / "again");
  const std::string pairs = read(folder.path / "pairs"), model = read(folder.path / "m/model.safetensors");
  const std::string eval = "translate eval --model m --pairs pairs --out ";
  for (const char* out : {"pairs", "./pairs", "link", "m/model.safetensors", "again"})
    check_refused(folder, words(eval + out), 2, "--out: '" + std::string(out) + "' is also an input");
  for (const char* npy : {"m/model.safetensors", "m/../m/model.safetensors", "again"})
    check_refused(folder, words("seppo inspect m/model.safetensors --tensor output.weight --npy " + std::string(npy)),
                  2, "--npy: '" + std::string(npy) + "' is also an input");
  fs::create_directories(folder.path / "data");
  for (const char* name : {"config.json", "metrics.jsonl", "report.html", "model.safetensors"}) {
    folder.write("data/" + std::string(name), pairs);
    check_refused(folder, words("translate train --out data --overwrite --pairs data/" + std::string(name)), 2,
                  "--out: 'data/" + std::string(name) + "' is also an input");
    BOOST_CHECK_EQUAL(read(folder.path / "data" / name), pairs);
  }
  BOOST_CHECK_EQUAL(read(folder.path / "pairs"), pairs);
  BOOST_CHECK(read(folder.path / "m/model.safetensors") == model);
  BOOST_CHECK_EQUAL(folder.run(words(eval + "new")).code, 0);
  BOOST_CHECK_EQUAL(folder.run(words(eval + "new")).code, 0);  // replaces an earlier output
}

BOOST_AUTO_TEST_CASE(checkpoints_of_another_run_behind_a_link) {
  const Folder folder("run-folders");
  train(folder, "other");
  for (const char* part : {"checkpoints", "last"}) {
    fs::create_directories(folder.path / "run");
    fs::create_directory_symlink("../other/checkpoints", folder.path / "run" / part);
    check_refused(folder, words(kTiny + "--epochs 1 --overwrite --out run"), 74,
                  "run/" + std::string(part) + ": is a link to a folder with checkpoints");
    fs::remove_all(folder.path / "run");
  }
  BOOST_CHECK(fs::exists(folder.path / "other/checkpoints/10.safetensors"));
}

BOOST_AUTO_TEST_CASE(a_run_that_is_a_part_of_what_it_would_replace) {
  const Folder folder("run-folders");
  train(folder, "run");
  train(folder, "whole");
  for (const char* part : {"last", "checkpoints"}) {
    fs::create_directories(folder.path / "run" / part / "inner");
    fs::copy(folder.path / "whole/checkpoints", folder.path / "run" / part / "inner/checkpoints",
             fs::copy_options::recursive);
    check_refused(folder, words("addsub train --overwrite --out run --resume run/" + std::string(part) + "/inner"), 2,
                  "--out: the folder to resume is a part of 'run'");
    BOOST_CHECK(fs::exists(folder.path / "run" / part / "inner/checkpoints/10.safetensors"));
    fs::remove_all(folder.path / "run" / part / "inner");
  }
}

// Only temporary files of the run's own files are removed at the next start.
BOOST_AUTO_TEST_CASE(temporary_files_of_others) {
  const Folder folder("run-folders");
  const std::string end = ".tmp-0123456789abcdef";
  const Words own{"model.safetensors",
                  "config.json",
                  "metrics.jsonl",
                  "report.html",
                  "checkpoints/12.safetensors",
                  "checkpoints/best.safetensors",
                  "last/3.safetensors"};
  const Words others{"notes", "thesis.tex", "checkpoints/mine", "xconfig.json", "last/x3.safetensors"};
  for (const char* part : {"checkpoints", "last"}) fs::create_directories(folder.path / part);
  for (const Words* names : {&own, &others})
    for (const std::string& name : *names) folder.write(name + end, "content");
  folder.write("model.safetensors.tmp-012345", "content");
  seppo::RunFolder{folder.path};
  for (const std::string& name : own) BOOST_CHECK_MESSAGE(!fs::exists(folder.path / (name + end)), name);
  for (const std::string& name : others) BOOST_CHECK_MESSAGE(fs::exists(folder.path / (name + end)), name);
  BOOST_CHECK(fs::exists(folder.path / "model.safetensors.tmp-012345"));
}

// The system's own messages name the file, as all others do, and nothing else.
BOOST_AUTO_TEST_CASE(endless_links) {
  const Folder folder("run-folders");
  train(folder, "run");
  fs::remove(folder.path / "run/model.safetensors");
  fs::create_symlink("model.safetensors", folder.path / "run/model.safetensors");
  check_refused(folder, words("addsub predict --model run 1"), 74,
                "addsub: run/model.safetensors: Too many levels of symbolic links\n");
}
