// Non-default configs: the values to try for each field that a config lists, and rows of such values that together
// contain each pair of values of any two fields, as far as the rules between fields permit it.
#pragma once

#include <seppo/autograd/core/random.h>
#include <seppo/nn/config.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace test {

// Small values for counts, to keep models small, including values that the rules between fields reject; values far
// below and far above the default for real numbers; every possible value of flags and choices.
struct FieldValues {
  std::string name;
  std::vector<int> integers;
  std::vector<double> numbers;
  std::vector<std::uint64_t> seeds;

  explicit FieldValues(const seppo::Field& field) : name(field.name) {
    const auto is_in_range = [&](double x) { return x >= field.range.least && x <= field.range.most; };
    const auto add_around = [&](double standard) {
      for (const double x : {standard / 2, standard * 300})
        if (standard != 0 && is_in_range(x)) numbers.push_back(x);
      for (const double x : {1e-4, 0.2})
        if (standard == 0 && is_in_range(x)) numbers.push_back(x);
    };
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, int*>) {
            for (const int x : {0, 1, 2, 3, 4, 8})
              if (is_in_range(x)) integers.push_back(x);
          } else if constexpr (std::is_same_v<T, double*>) {
            add_around(*value);
          } else if constexpr (std::is_same_v<T, std::array<double, 2>*>) {
            numbers = {0, 0.5};
          } else if constexpr (std::is_same_v<T, bool*>) {
            integers = {0, 1};
          } else if constexpr (std::is_same_v<T, std::uint64_t*>) {
            seeds = {1, ~std::uint64_t{0} - 5};
          } else if constexpr (std::is_same_v<T, seppo::Choice>) {
            for (std::size_t i = 0; i < value.names.size(); ++i) integers.push_back(static_cast<int>(i));
          } else {
            integers = {0};  // texts and paths keep their values
          }
        },
        field.value);
  }
  std::size_t size() const { return integers.size() + numbers.size() + seeds.size(); }
  void set(const seppo::Field& field, std::size_t which) const {
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, int*>)
            *value = integers[which];
          else if constexpr (std::is_same_v<T, double*>)
            *value = numbers[which];
          else if constexpr (std::is_same_v<T, std::array<double, 2>*>)
            *value = {numbers[which], numbers[which] / 2};
          else if constexpr (std::is_same_v<T, bool*>)
            *value = integers[which] == 1;
          else if constexpr (std::is_same_v<T, std::uint64_t*>)
            *value = seeds[which];
          else if constexpr (std::is_same_v<T, seppo::Choice>)
            value.set(integers[which]);
        },
        field.value);
  }
};

// Calls f for each field.
template <class Config>
void for_each_field(Config& config, const std::function<void(const seppo::Field&)>& f) {
  seppo::ConfigVisitor visitor(f);
  config.fields(visitor);
}

// Rows of legal configs. Each row starts with a pair not yet covered; each remaining field in turn takes the value that
// covers the most missing pairs (AETG, Cohen et al. 1997).
template <class Config>
class Pairs {
 public:
  Pairs(const Config& standard, const std::function<bool(const Config&)>& is_legal, std::uint64_t seed)
      : standard_(standard), is_legal_(is_legal), random_(seed, seppo::Purpose::test) {
    for_each_field(standard_, [&](const seppo::Field& field) {
      begins_.push_back(count_);
      values_.emplace_back(field);
      count_ += values_.back().size();
    });
    missing_.assign(count_ * count_, false);
    for (std::size_t i = 0; i < values_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        for (std::size_t a = 0; a < values_[i].size(); ++a)
          for (std::size_t b = 0; b < values_[j].size(); ++b) {
            todo_.push_back({i, a, j, b});
            pair(i, a, j, b) = pair(j, b, i, a) = true;
          }
  }

  // Pairs that no legal config contains, each as the names of two fields and the indices of their values.
  const std::vector<std::string>& impossible() const { return impossible_; }
  std::size_t pairs() const { return all_; }
  std::size_t fields() const { return values_.size(); }

  std::optional<Config> next() {
    while (!todo_.empty()) {
      const auto [i, a, j, b] = todo_.back();
      if (!pair(i, a, j, b)) {
        todo_.pop_back();
        ++all_;
        continue;
      }
      std::optional<std::vector<std::size_t>> best;
      std::size_t most = 0;
      for (int attempt = 0; attempt < 2000 && (attempt < 60 || !best); ++attempt) {
        const auto row = fill(i, a, j, b, attempt >= 60);
        if (!is_legal_(made_of(row))) continue;
        const std::size_t found = gain(row);
        if (found > most) best = row, most = found;
      }
      if (best) {
        for (std::size_t f = 0; f < best->size(); ++f)
          for (std::size_t g = 0; g < best->size(); ++g) pair(f, (*best)[f], g, (*best)[g]) = false;
        return made_of(*best);
      }
      pair(i, a, j, b) = pair(j, b, i, a) = false;
      impossible_.push_back(values_[j].name + " " + std::to_string(b) + ", " + values_[i].name + " " +
                            std::to_string(a));
    }
    return {};
  }
  // Any config, legal or not.
  Config any() {
    std::vector<std::size_t> row(values_.size());
    for (std::size_t f = 0; f < row.size(); ++f) row[f] = draw(values_[f].size());
    return made_of(row);
  }

 private:
  struct Pair {
    std::size_t i, a, j, b;
  };

  std::size_t draw(std::size_t n) { return random_.below(static_cast<std::uint32_t>(n)); }
  std::vector<bool>::reference pair(std::size_t i, std::size_t a, std::size_t j, std::size_t b) {
    return missing_[(begins_[i] + a) * count_ + begins_[j] + b];
  }
  std::vector<std::size_t> fill(std::size_t i, std::size_t a, std::size_t j, std::size_t b, bool blindly) {
    std::vector<std::size_t> row(values_.size()), chosen{i, j};
    row[i] = a;
    row[j] = b;
    for (const int place :
         seppo::random_permutation(static_cast<int>(row.size()), {random_.next(), seppo::Purpose::test})) {
      const auto f = static_cast<std::size_t>(place);
      if (f == i || f == j) continue;
      const std::size_t n = values_[f].size(), first = draw(n);
      std::size_t most = 0;
      row[f] = first;
      for (std::size_t k = 0; k < n && !blindly; ++k) {
        const std::size_t v = (first + k) % n;
        std::size_t found = 0;
        for (const std::size_t g : chosen) found += pair(f, v, g, row[g]);
        if (found > most) most = found, row[f] = v;
      }
      chosen.push_back(f);
    }
    return row;
  }
  std::size_t gain(const std::vector<std::size_t>& row) {
    std::size_t found = 0;
    for (std::size_t f = 0; f < row.size(); ++f)
      for (std::size_t g = 0; g < f; ++g) found += pair(f, row[f], g, row[g]);
    return found;
  }
  Config made_of(const std::vector<std::size_t>& row) const {
    Config config = standard_;
    std::size_t f = 0;
    for_each_field(config, [&](const seppo::Field& field) {
      values_[f].set(field, row[f]);
      ++f;
    });
    return config;
  }

  Config standard_;
  std::function<bool(const Config&)> is_legal_;
  seppo::RandomStream random_;
  std::vector<FieldValues> values_;
  std::vector<std::size_t> begins_;  // index of each field's first value among all values
  std::size_t count_ = 0, all_ = 0;
  std::vector<bool> missing_;
  std::vector<Pair> todo_;
  std::vector<std::string> impossible_;
};

}  // namespace test
