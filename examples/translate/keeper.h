// Keeps the best of the models that a training evaluates, and the last ones for averaging.
#pragma once

#include "app/run.h"

#include <seppo/nn/io/checkpoint.h>

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <optional>

namespace translate {

// The measure that tells which model is best.
enum class Best { bleu, exact, perplexity, last };
inline std::span<const char* const> enum_names(Best) {
  static constexpr const char* kNames[] = {"bleu", "exact", "perplexity", "last"};
  return kNames;
}

class Keeper {
 public:
  // `save` writes the parameters, as they are then, to the model file in `folder`; `last` models are averaged.
  Keeper(std::filesystem::path folder, Best best, int last, seppo::Parameters& parameters, std::function<void()> save)
      : folder_(std::move(folder)), best_(best), last_(last), parameters_(parameters), save_(std::move(save)) {}

  void save(const examples::Evaluation& evaluation) {
    save_if_best(evaluation);
    if (last_ < 2) return;
    files_.push_back(folder_ / "last" / fmt::format("{}.safetensors", ++saved_));
    std::filesystem::create_directories(folder_ / "last");
    seppo::save_checkpoint(files_.back(), parameters_, {});
    if (files_.size() <= static_cast<std::size_t>(last_)) return;
    std::filesystem::remove(files_.front());
    files_.pop_front();
  }
  // True if the evaluation is the best so far.
  bool save_if_best(const examples::Evaluation& evaluation) {
    if (best_ != Best::last) {
      const std::string name = enum_names(best_)[static_cast<std::size_t>(best_)];
      const double value = evaluation.measures.at("val_" + name).get<double>() * (best_ == Best::perplexity ? -1 : 1);
      if (highest_ && value <= *highest_) return false;
      highest_ = value;
    }
    save_();
    return true;
  }
  // Loads the mean of the models saved last; false if there is only one.
  bool load_average() {
    if (files_.size() < 2) return false;
    seppo::load_average(std::vector(files_.begin(), files_.end()), parameters_);
    return true;
  }
  void load_best() { seppo::load_checkpoint(folder_ / "model.safetensors", parameters_); }

 private:
  std::filesystem::path folder_;
  Best best_;
  int last_, saved_ = 0;
  seppo::Parameters& parameters_;
  std::function<void()> save_;
  std::optional<double> highest_;
  std::deque<std::filesystem::path> files_;
};

}  // namespace translate
