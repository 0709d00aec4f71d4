// The files of a training run reach the disk in the order that RunFolder documents, so no power failure loses them.
#include <seppo/nn/run/run_folder.h>
#include "support/recorded_files.h"
#include "support/run_files.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <set>

using test::FileEvent;
using test::writing;
namespace fs = std::filesystem;

namespace {

// Checks each event against what has reached the disk by then: a file is renamed only once its content is flushed, and
// no file is renamed or removed before all earlier renames are flushed.
void check_durable(const std::vector<FileEvent>& events, const std::string& what) {
  std::set<fs::path> unflushed, unflushed_folders;
  for (const FileEvent& e : events) {
    const fs::path folder = e.path.parent_path();
    if (e.what == "write") unflushed.insert(e.path);
    if (e.what == "fsync") unflushed.erase(e.path), unflushed_folders.erase(e.path);
    if (e.what == "rename" || e.what == "remove")
      for (const fs::path& other : unflushed_folders)
        BOOST_ERROR(what << ": " << e.what << " of " << e.path << " before " << other << " is flushed");
    if (e.what != "rename") continue;
    BOOST_CHECK_MESSAGE(!unflushed.contains(e.path), what << ": " << e.path << " is renamed and not flushed");
    unflushed_folders.insert(e.to.parent_path());
  }
  BOOST_CHECK_MESSAGE(unflushed_folders.empty(), what << ": the last rename is not flushed");
}

std::size_t index_of(const std::vector<FileEvent>& events, const std::string& what, const fs::path& path) {
  const auto found = std::ranges::find_if(
      events, [&](const FileEvent& e) { return e.what == what && (e.what == "rename" ? e.to : e.path) == path; });
  BOOST_REQUIRE_MESSAGE(found != events.end(), what << " of " << path << " did not happen");
  return static_cast<std::size_t>(found - events.begin());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_is_on_the_disk_before_an_older_one_goes) {
  const test::PlainFolder base("durable-folder");
  const fs::path root = base.path / "new";
  std::vector<FileEvent> events =
      test::record_files([&] { seppo::RunFolder(root).save_checkpoint(1, 2, writing("one")); });
  check_durable(events, "first");
  // New folders are flushed in their parent folders before any file is renamed into them.
  BOOST_CHECK_LT(index_of(events, "fsync", base.path), index_of(events, "rename", root / "checkpoints/1.safetensors"));
  BOOST_CHECK_LT(index_of(events, "fsync", root), index_of(events, "rename", root / "checkpoints/1.safetensors"));

  seppo::RunFolder folder(root);
  folder.go_on_from(1);
  for (int step = 2; step <= 4; ++step) {
    events = test::record_files([&] { folder.save_checkpoint(step, 2, writing("more")); });
    check_durable(events, "step " + std::to_string(step));
    if (step < 3) continue;
    const fs::path old = root / "checkpoints" / (std::to_string(step - 2) + ".safetensors");
    BOOST_CHECK_LT(index_of(events, "fsync", root / "checkpoints"), index_of(events, "remove", old));
    BOOST_CHECK(!fs::exists(old));
  }
  for (int step = 5; step <= 7; ++step) {
    events = test::record_files([&] { folder.save_last(step, 1, writing("last")); });
    check_durable(events, "last " + std::to_string(step));
  }
}

// The best model is set aside before the final model takes its place, and is restored when training resumes.
BOOST_AUTO_TEST_CASE(the_model_at_the_end_replaces_one_that_is_set_aside_durably) {
  const test::PlainFolder base("durable-folder");
  const std::string best(3'000'000, 'b');
  {
    seppo::RunFolder folder(base.path);
    folder.save_checkpoint(1, 2, writing("state"));
    folder.save_model(writing(best));
    const std::vector<FileEvent> events = test::record_files([&] { folder.save_model(writing("end"), true); });
    check_durable(events, "the end");
    const fs::path aside = base.path / "checkpoints/best.safetensors";
    BOOST_CHECK_LT(index_of(events, "rename", aside), index_of(events, "rename", folder.model()));
    BOOST_CHECK_LT(index_of(events, "fsync", events[index_of(events, "rename", aside)].path),
                   index_of(events, "rename", aside));
    BOOST_CHECK_EQUAL(test::read(folder.model()), "end");
    BOOST_CHECK(test::read(aside) == best);
    // Saving a second final model must not replace the one set aside.
    folder.save_model(writing("later"), true);
    BOOST_CHECK(test::read(aside) == best);
  }
  seppo::RunFolder folder(base.path);
  folder.go_on_from(1);
  BOOST_CHECK(test::read(folder.model()) == best);
  // If any call fails, the best model survives.
  const std::size_t calls = test::record_files([&] { folder.save_model(writing("end"), true); }).size();
  for (std::size_t at = 0; at < calls; ++at) {
    folder.go_on_from(1);
    BOOST_CHECK_THROW(test::record_files([&] { folder.save_model(writing("end"), true); }, static_cast<int>(at)),
                      seppo::FileError);
    if (at + 1 == calls) continue;  // by then the new model is in place
    BOOST_CHECK_MESSAGE(test::read(folder.model()) == best, at);
  }
}
