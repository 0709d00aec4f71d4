// A teacher and a student (Hinton, Vinyals and Dean 2015): a large network learns from 600 labelled points; a small one
// has the labels of 12, and what the large one thinks of points without labels. Each has Parameters of its own; a
// step of the student has two losses, over examples of their own. docs/teacher-and-student.md walks through it. Takes
// one second.
#include <seppo/seppo.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kArms = 3, kSteps = 800;
constexpr real kTemperature = 2;

struct Points {  // on the arms of a spiral
  explicit Points(std::span<const int> rows) {
    for (const int row : rows) {
      RandomStream random(/*seed=*/1, Purpose::data, row);
      const int arm = row % kArms;
      const double radius = random.uniform(), angle = 4 * radius + arm * 2 * std::numbers::pi / kArms;
      xy.push_back(radius * std::cos(angle) + 0.03 * random.normal());
      xy.push_back(radius * std::sin(angle) + 0.03 * random.normal());
      arms.push_back(arm);
    }
  }
  Tensor inputs() const { return tensor({arms.size(), 2}, xy); }

  std::vector<double> xy;
  std::vector<int> arms;
};

struct Mlp {
  Mlp(const Scope& s, int hidden)
      : in(s / "in", 2, hidden), mid(s / "mid", hidden, hidden), out(s / "out", hidden, kArms) {}
  Tensor operator()(const Tensor& x) const { return out(silu(mid(silu(in(x))))); }
  Linear in, mid, out;
};

std::vector<int> rows_from(int first, int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

double share_right(const Mlp& model) {
  const Inference inference;
  const Points test(rows_from(100'000, 900));
  return accuracy(model(test.inputs()), test.arms);
}

// The loss of labelled points.
auto classified(const Mlp& model) {
  return [&model](std::span<const int> rows) {
    const Points points(rows);
    return classification_loss(model(points.inputs()), points.arms);
  };
}

// The student's cross-entropy with what the teacher believes, both softened by the temperature.
auto imitation(const Mlp& student, const Mlp& teacher) {
  return [&](std::span<const int> rows) {
    const Tensor x = Points(rows).inputs();
    const Tensor beliefs = softmax(teacher(x) / kTemperature);
    const Tensor loss = cross_entropy(student(x) / kTemperature, beliefs, {.reduction = Reduction::sum});
    return ShardLoss{loss * (kTemperature * kTemperature), rows.size()};
  };
}

using Batch = std::vector<int>;  // points without labels

struct Training {
  explicit Training(bool listens = true) : listens(listens) { teachers.freeze(""); }

  void teach() {
    teachers.freeze("", false);
    Trainer teaching(teachers, {.lr = 0.01});
    Sampler lessons(600, {.batch_size = 100});
    while (teaching.steps() < kSteps) teaching.step(lessons.next(), classified(teacher));
    teachers.freeze("");  // a student's step must not bring gradients here
  }

  Batch draw() {
    const std::span<const int> points = unlabelled.next();
    return {points.begin(), points.end()};
  }

  double step(const Batch& batch) {  // of the student
    const double weight = listens ? 1 : 0;
    return trainer.step({{labelled, classified(student)}, {batch, imitation(student, teacher), weight}}).loss;
  }

  bool listens;  // to the teacher
  Parameters teachers{/*seed=*/1}, parameters{/*seed=*/2};
  Mlp teacher{teachers.root(), 64}, student{parameters.root(), 12};
  Trainer trainer{parameters, {.lr = 0.01}};
  std::vector<int> labelled = rows_from(0, 12);
  Sampler unlabelled{600, {.batch_size = 100, .seed = 3}};
};

int main() {
  Training alone(/*listens=*/false), taught;
  taught.teach();
  for (int step = 0; step < kSteps; ++step) {
    alone.step(alone.draw());
    taught.step(taught.draw());
  }
  const double by_itself = share_right(alone.student), with_teacher = share_right(taught.student);
  std::printf("right: teacher %.1f %%, student alone %.1f %%, student with teacher %.1f %%\n",
              100 * share_right(taught.teacher), 100 * by_itself, 100 * with_teacher);
  return with_teacher > 0.95 && with_teacher > by_itself + 0.1 ? 0 : 1;
}
