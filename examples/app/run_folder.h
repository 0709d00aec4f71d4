// RunFolder: the files of one training, written in an order that leaves them useful whenever it is killed.
//
//   model.safetensors              the best model so far
//   checkpoints/STEP.safetensors   the last ones, to go on from
//   last/STEP.safetensors          the models of the last evaluations, for their mean
//
//   RunFolder folder("runs/mine");
//   if (const auto file = newest_checkpoint("runs/mine", report)) trainer.load(*file),
//   folder.go_on_from(trainer.steps());
//   ...
//   folder.save_checkpoint(trainer.steps(), 2, [&](const auto& file) { trainer.save(file); });
//
// A checkpoint is on the disk before an older one is removed, and a model that is better than all before is in the
// checkpoint of its step before it replaces theirs.
//
// Of several ranks (nn/train/ranks.h) the first one writes. The others call the same functions, and `write` of a
// checkpoint, in which Trainer compares the ranks.
#pragma once

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/utility.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace examples {

// Keeps other processes from locking a folder. Throws FileError if one has done so, or if it cannot be opened.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

class RunFolder {
 public:
  using Write = seppo::FunctionRef<void(const std::filesystem::path&)>;

  // Makes the folder, and removes what a killed training left half written. Throws FileError if that cannot be done, or
  // if another process has this folder open.
  explicit RunFolder(std::filesystem::path folder);

  std::filesystem::path model() const { return folder_ / "model.safetensors"; }
  // Is there anything of an earlier training? It stays until the first checkpoint of this one, and its model until the
  // first of this one is saved.
  bool is_used() const;

  // The training goes on from its checkpoint of this step: later files go, and the best model of until then returns.
  void go_on_from(std::int64_t step);
  // Keeps the last `keep` checkpoints.
  void save_checkpoint(std::int64_t step, std::size_t keep, Write write);
  // A model for the mean of the last `keep`; before the checkpoint of the same step.
  void save_last(std::int64_t step, std::size_t keep, Write write);
  std::vector<std::filesystem::path> last_models(std::size_t keep) const;
  // Replaces the model. One at the end of a training is there to be used: the best that evaluations in their turn have
  // found is set aside for when the training goes on.
  void save_model(Write write, bool is_at_the_end = false);

 private:
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
  bool is_new_ = true;  // no file of this training has been saved
};

// The checkpoint of the last step whose digest is right; `damaged` is told of each that is not. Nothing if there is
// none.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder,
                                                       seppo::FunctionRef<void(const seppo::FormatError&)> damaged);

}  // namespace examples
