// Modules as they compute from fixed inputs, with one value of an option and with another.
#include "support/option_reach.h"

#include <seppo/autograd/core/guards.h>

#include <boost/test/unit_test.hpp>

#include <fnmatch.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace test {

using seppo::Field;
using seppo::real;
using seppo::Tensor;

namespace {

// A number in 0..1 that no other text is likely to have.
double number_of(const std::string& text) {
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<double>(hash % 1'000'003) / 1'000'003;
}

// Of order 1, and never 0 or 1.
void fill(std::span<real> values, double angle) {
  for (real& value : values) value = static_cast<real>(0.3 + 0.8 * std::sin(angle += 2.39996));
}

bool shares_memory(const Tensor& a, const Tensor& b) {
  return a.data() < b.data() + b.numel() && b.data() < a.data() + a.numel();
}

// Notes what ops compute, and may replace it.
class Notes : public seppo::Observer {
 public:
  explicit Notes(bool replaces) : replaces_(replaces) {}

  void forward(const Tensor& y, std::span<const Tensor> inputs) override {
    seppo::tape().random.site = 0;
    const auto is_shared = [&](const Tensor& x) { return x.defined() && shares_memory(x, y); };
    if (std::ranges::any_of(inputs, is_shared)) return;  // y is a view
    const std::string* const region = y.node().region;
    std::vector<double>& noted = found.modules[region && !region->empty() ? *region : "model"];
    noted.push_back(number_of(y.node().op));
    noted.insert(noted.end(), y.shape().sizes().begin(), y.shape().sizes().end());
    noted.insert(noted.end(), y.values().begin(), y.values().end());
    found.result.assign(y.values().begin(), y.values().end());
    if (replaces_) fill({y.data(), y.numel()}, 1);
  }

  Observed found;

 private:
  bool replaces_;
};

Observed noted(const std::function<void()>& f, bool replaces) {
  seppo::tape().clear();
  const seppo::NoGrad guard;
  seppo::tape().random = {.seed = 1, .step = 1};
  Notes notes(replaces);
  {
    const seppo::Observe scope(notes);
    f();
  }
  seppo::tape().clear();
  return notes.found;
}

// Sets a field to one of its values.
struct Value {
  std::string text;
  std::function<void()> set;
};

// A choice has few values, all of which are tried.
bool is_choice(const Field& field) {
  const bool is_whole = std::holds_alternative<int*>(field.value);
  return std::holds_alternative<seppo::Choice>(field.value) || (is_whole && field.range.most - field.range.least <= 3);
}

// The values that take the place of the field's own, of which the first that are legal are used.
std::vector<Value> others(const Field& field) {
  std::vector<Value> values;
  const auto add = [&](auto* to, auto value, const std::string& text) {
    values.push_back({text, [to, value] { *to = value; }});
  };
  const auto fits = [&](double x) { return x >= field.range.least && x <= field.range.most; };
  if (auto* const* flag = std::get_if<bool*>(&field.value)) add(*flag, !**flag, **flag ? "false" : "true");
  if (auto* const* whole = std::get_if<int*>(&field.value)) {
    const int now = **whole, least = static_cast<int>(field.range.least);
    std::vector<int> numbers{2 * now, now / 2, now + 1, now - 1};
    if (is_choice(field)) numbers = {least, least + 1, least + 2, least + 3};
    for (const int x : numbers)
      if (x != now && fits(x)) add(*whole, x, std::to_string(x));
  }
  if (auto* const* number = std::get_if<double*>(&field.value)) {
    const double now = **number;
    for (const double x : {2 * now, now / 2, 0.3})
      if (x != now && fits(x)) add(*number, x, std::to_string(x));
  }
  if (const auto* choice = std::get_if<seppo::Choice>(&field.value))
    for (int i = 0; i < static_cast<int>(choice->names.size()); ++i)
      if (i != choice->value()) values.push_back({choice->names[static_cast<std::size_t>(i)], [=] { choice->set(i); }});
  return values;
}

std::function<void()> restoring(const Field& field) {
  return std::visit(
      []<class T>(const T& value) -> std::function<void()> {
        if constexpr (std::is_same_v<T, seppo::Choice>)
          return [value, now = value.value()] { value.set(now); };
        else
          return [value, now = *value] { *value = now; };
      },
      field.value);
}

using Modules = std::map<std::string, std::vector<double>>;

std::set<std::string> changed(const Modules& a, const Modules& b) {
  std::set<std::string> names;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const auto& [name, ops] : *one) {
      const auto found = other->find(name);
      if (found == other->end() || found->second != ops) names.insert(name);
    }
  return names;
}

// What was computed with each value of a field, its own first: with all of a choice, and else with one other.
std::vector<Observed> all_observed(const Field& field, const std::function<Observed()>& run) {
  std::vector<Observed> all{run()};
  const std::function<void()> restore = restoring(field);
  for (const Value& value : others(field)) {
    value.set();
    try {
      all.push_back(run());
    } catch (const seppo::ArgumentError& e) {  // for example, heads that do not divide the width
      BOOST_TEST_MESSAGE(field.name << " " << value.text << ": " << e.what());
    }
    restore();
    if (all.size() > 1 && !is_choice(field)) break;
  }
  return all;
}

void check_modules(const std::string& patterns, const std::set<std::string>& found,
                   const std::set<std::string>& modules) {
  std::istringstream list(patterns);
  std::set<std::string> expected;
  for (std::string pattern; list >> pattern;) {
    const std::size_t before = expected.size();
    for (const std::string& module : modules)
      if (fnmatch(pattern.c_str(), module.c_str(), 0) == 0) expected.insert(module);
    BOOST_CHECK_MESSAGE(expected.size() > before, "no other module is a " << pattern);
  }
  for (const std::string& module : expected) BOOST_CHECK_MESSAGE(found.contains(module), "has no effect on " << module);
  for (const std::string& module : found) BOOST_CHECK_MESSAGE(expected.contains(module), "has an effect on " << module);
}

void check_results(const std::vector<Observed>& all, bool is_reached) {
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      BOOST_CHECK_MESSAGE(
          (all[i].result != all[j].result) == is_reached,
          "the " << j << ". and " << i << ". value tried give " << (is_reached ? "the same" : "different results"));
}

void check_field(const Field& field, const std::string& patterns, const std::function<Observed()>& run) {
  const std::vector<Observed> all = all_observed(field, run);
  BOOST_CHECK_MESSAGE(all.size() > 1, "has no other value that is legal");
  check_results(all, !patterns.empty());
  std::set<std::string> found, modules;
  for (const Observed& one : all) {
    found.merge(changed(all[0].modules, one.modules));
    for (const auto& [name, ops] : one.modules) modules.insert(name);
  }
  if (patterns != "?") check_modules(patterns, found, modules);
}

}  // namespace

void fill_by_name(seppo::Parameters& parameters) {
  const std::span<real> all = parameters.edit();
  for (const auto& entry : parameters.entries())
    fill(all.subspan(entry.offset, entry.size()), 6 * number_of(entry.name));
}

Observed observed(const std::function<void()>& f) {
  return {.modules = noted(f, true).modules, .result = noted(f, false).result};
}

void check_reach_of(const std::vector<Field>& fields, const std::vector<Reach>& expected,
                    const std::function<Observed()>& run) {
  std::set<std::string> known;
  for (const Reach& reach : expected) BOOST_CHECK_MESSAGE(known.insert(reach.field).second, reach.field << " twice");
  for (const Field& field : fields) BOOST_TEST_CONTEXT(field.name) {
      const auto reach = std::ranges::find(expected, field.name, &Reach::field);
      known.erase(field.name);
      BOOST_CHECK_MESSAGE(reach != expected.end(), "no test says which modules this option reaches");
      if (reach != expected.end()) check_field(field, reach->modules, run);
    }
  for (const std::string& name : known) BOOST_ERROR("there is no option " << name);
}

}  // namespace test
