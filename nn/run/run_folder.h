// RunFolder: the files of one training run, written in an order that leaves them usable whenever the run is killed.
//
//   model.safetensors              the best model so far; beside it, config.json, metrics.jsonl and report.html
//   checkpoints/STEP.safetensors   the last ones, to resume from
//   last/STEP.safetensors          the models of the last evaluations, for their mean
//
//   RunFolder folder("runs/mine");
//   if (const auto file = newest_checkpoint("runs/mine", report)) {
//     trainer.load(*file);
//     folder.go_on_from(trainer.steps());
//   }
//   ...
//   folder.save_checkpoint(trainer.steps(), 2, [&](const auto& file) { trainer.save(file); });
//
// A checkpoint is on disk before an older one is removed, and a new best model is in the checkpoint of its step before
// it replaces the previous best.
//
// If there are several ranks (nn/train/ranks.h), only the first writes. The others call the same functions, and the
// `write` callback of a checkpoint, in which Trainer compares the ranks.
#pragma once

#include "../../autograd/core/check.h"
#include "../../autograd/core/function_ref.h"
#include "folder_lock.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class RunFolder {
 public:
  using Write = FunctionRef<void(const std::filesystem::path&)>;

  // Creates the folder, and removes the temporary files of a killed run: those of the files named above, no other.
  // Throws FileError if that fails, or if another process has this folder open.
  explicit RunFolder(std::filesystem::path folder);

  std::filesystem::path model() const { return folder_ / "model.safetensors"; }
  // Are there files of an earlier run? They remain until this run's first checkpoint is saved, and the earlier model
  // remains until this run's first model is saved. So do its metrics, once begin() was called.
  bool is_used() const;
  // Throws FileError if a run that begins here would remove the checkpoints of another folder, to which a link leads.
  void check_own() const;
  // Throws FileError if the folder was removed or replaced since it was locked: another run may be writing there. All
  // functions below call it before they change anything.
  void check_locked() const;
  // Removes what an earlier run could be resumed from, and its report; its model remains.
  void clear();
  // Replaces all files by those of another run's folder, which is left unchanged. Throws
  // std::filesystem::filesystem_error.
  void copy_from(const std::filesystem::path& other);

  // A new run begins, which will write metrics of its own: those of an earlier one, which may still be resumed, are set
  // aside.
  void begin();
  // The run resumes from its checkpoint of this step: later files are removed, and the best model up to then and
  // the metrics are restored.
  void go_on_from(std::int64_t step);
  // Keeps the last `keep` checkpoints.
  void save_checkpoint(std::int64_t step, std::size_t keep, Write write);
  // Saves a model for the mean of the last `keep`; call it before saving the checkpoint of the same step.
  void save_last(std::int64_t step, std::size_t keep, Write write);
  std::vector<std::filesystem::path> last_models(std::size_t keep) const;
  // Replaces the model. A model saved at the end of a run is there to be used; the best model of the regular
  // evaluations is then set aside, in case the run is resumed.
  void save_model(Write write, bool is_at_the_end = false);

  // Lets `saves` call the three functions above, which only write into temporary files then. Flushing these to the disk
  // and renaming them, in the same order, goes on in the background, once what is there already is finished. A run's
  // first files are saved at once.
  void save_in_background(FunctionRef<void()> saves);
  // Waits until all that was saved is on disk under its name. Throws what this failed with.
  void finish();
  // Throws it too, but does not wait.
  void check_background();

 private:
  void begin_change();
  void replace(FunctionRef<void()> write, std::function<void()> then);

  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
  bool is_new_ = true;                                      // no file of this run has been saved
  std::vector<std::function<void()>>* deferred_ = nullptr;  // receives what replace() leaves for later
  std::future<void> background_;
};

// The latest checkpoint that can be read and whose digest is correct; `passed_over` is called with the reason for each
// later one. Empty if there is none.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder,
                                                       FunctionRef<void(const Error&)> passed_over);

}  // namespace SEPPO_ABI
}  // namespace seppo
