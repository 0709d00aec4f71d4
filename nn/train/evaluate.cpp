// evaluate: chunks as tasks, whose sums are added in their order.
#include "evaluate.h"

#include "../../autograd/core/guards.h"
#include "../../autograd/core/parallel.h"
#include "../../autograd/core/printable.h"
#include "interrupts.h"
#include "ranks.h"

#include <algorithm>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// All names, also those of other ranks' parts; in the same order in every rank.
Sums zeros_of_all(const std::vector<Sums>& parts) {
  constexpr char kEnd = '\0';
  std::string own;
  for (const Sums& part : parts)
    for (const Sums::Named& sum : part.all()) own += sum.name + kEnd;
  Sums zeros;
  for (std::string_view names : gather_over_ranks(own))
    while (!names.empty()) {
      const std::size_t end = names.find(kEnd);
      zeros.add(names.substr(0, end), 0);
      names.remove_prefix(end + 1);
    }
  return zeros;
}

// The sum of all ranks' parts. A part is empty in all ranks but one.
Sums total_of(const std::vector<Sums>& parts) {
  Sums total = zeros_of_all(parts);
  const std::size_t names = total.all().size();
  std::vector<double> numbers;  // of each part, by name
  for (const Sums& part : parts) {
    Sums row = total;
    for (const Sums::Named& sum : part.all()) row.add(sum.name, sum.value);
    for (const Sums::Named& sum : row.all()) numbers.push_back(sum.value);
  }
  add_over_ranks(numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) total.add(total.all()[i % names].name, numbers[i]);
  return total;
}

// Makes another tape the thread's current one for a scope, with the settings of the thread's own.
class Borrow {
 public:
  explicit Borrow(Tape& t) : tape_(t) {
    t.use_settings_of(tape());
    t.random = tape().random;
    use_.emplace(t);
  }
  ~Borrow() { tape_.use_settings_of(Tape()); }  // nothing of the scope, such as its observers, may stay
  Borrow(const Borrow&) = delete;

 private:
  Tape& tape_;
  std::optional<UseTape> use_;
};

// The one of these tapes that is for this thread; null if there is none, or an evaluation around this one uses it.
Tape* tape_of_thread(UseTapes::Tapes tapes) {
  const auto index = static_cast<std::size_t>(thread_index());
  if (index >= tapes.size()) return nullptr;
  Tape* const found = tapes[index].get();
  return found == &tape() ? nullptr : found;
}

}  // namespace

Sums::Sums(std::initializer_list<Named> sums) {
  for (const Named& sum : sums) add(sum.name, sum.value);
}

Sums::Sums(const ShardLoss& loss) {
  const StepLoss numbers = numbers_of(loss);
  sums_ = {{"loss", numbers.loss}, {"count", numbers.count}, {"correct", numbers.correct}};
}

const Sums::Named* Sums::find(std::string_view name) const {
  const auto found = std::ranges::find(sums_, name, &Named::name);
  return found == sums_.end() ? nullptr : &*found;
}

void Sums::add(std::string_view name, double value) {
  if (const Named* sum = find(name))
    sums_[static_cast<std::size_t>(sum - sums_.data())].value += value;
  else
    sums_.push_back({std::string(name), value});
}

double Sums::operator[](std::string_view name) const {
  if (const Named* sum = find(name)) return sum->value;
  std::string names;
  for (const Named& sum : sums_) names += (names.empty() ? "" : ", ") + sum.name;
  if (names.empty()) names = "nothing";
  fail<ArgumentError>("sums: there is no '", printable(name), "', only ", printable(names));
}

Sums evaluate(std::span<const int> examples, FunctionRef<Sums(std::span<const int> some)> f, std::size_t chunk) {
  check<ArgumentError>(chunk > 0, "evaluate: chunks of 0 examples");
  const std::size_t chunks = (examples.size() + chunk - 1) / chunk;
  const auto number_of_ranks = static_cast<std::size_t>(ranks());
  const UseTapes::Tapes tapes = UseTapes::chosen();
  std::vector<Sums> parts(chunks);
  run_tasks((chunks + number_of_ranks - 1) / number_of_ranks, [&](std::size_t task) {
    const std::size_t i = task * number_of_ranks + static_cast<std::size_t>(rank());  // ranks take turns
    if (i >= chunks) return;
    stop_if_interrupted();
    const std::size_t first = i * chunk;
    std::optional<Borrow> borrowed;
    if (Tape* const other = tape_of_thread(tapes)) borrowed.emplace(*other);
    const UseMode eval(Mode::eval);
    const TapeMark mark;
    parts[i] = f(examples.subspan(first, std::min(chunk, examples.size() - first)));
  });
  return total_of(parts);
}

UseTapes::Tapes& UseTapes::chosen() {
  static thread_local Tapes tapes;
  return tapes;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
