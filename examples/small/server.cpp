// A server of texts: threads answer requests with one model, without a lock. docs/serve.md walks through it.
//
//   server THREADS BATCH < requests     each thread takes up to BATCH waiting requests at once
//
// A request is a line of tokens, such as "3 1 4"; its answer, "0: 7 2 5", begins with the number of the line. Without
// arguments, it serves requests of its own with eight threads, and checks that they are answered as by one.
#include <seppo/models/decoding/generate.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace seppo;
using Tokens = std::vector<int>;
constexpr int kVocabulary = 100;
using Batch = std::vector<TextRequest>;  // the seed of each is its number

struct Serving {
  // Many threads call this at once: the model is only read.
  std::vector<GeneratedText> answer(const Batch& batch) const { return generate_each(model, batch); }

  Parameters parameters{/*seed=*/1};
  LanguageModel model{parameters.root(), {.vocabulary = kVocabulary, .n_layers = 2, .max_length = 64}};
};

class Queue {
 public:
  void add(TextRequest request) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(request));
    changed_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  // Waits for a request, and takes those that are there, up to `most` of them; none at the end.
  Batch take(std::size_t most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty() || is_closed_; });
    Batch taken;
    while (!waiting_.empty() && taken.size() < most) {
      taken.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return taken;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TextRequest> waiting_;
  bool is_closed_ = false;
};

// The tokens of a line; none if it is refused. What a client sends is checked here, before it shares a batch.
Tokens read_tokens(const std::string& line) {
  std::istringstream words(line + ' ');  // so that a last word that is no number fails before the end
  Tokens tokens;
  for (int token = 0; words >> token;) {
    if (token < 0 || token >= kVocabulary) return {};
    tokens.push_back(token);
  }
  return words.eof() ? tokens : Tokens{};
}

void serve(const Serving& serving, std::size_t n_threads, std::size_t batch, std::istream& in, std::ostream& out) {
  Queue queue;
  std::mutex output;
  const auto tell = [&](std::size_t number, const Tokens& text) {
    const std::lock_guard lock(output);
    out << number << ":";
    for (const int token : text) out << " " << token;
    out << std::endl;
  };
  const auto answer_requests = [&] {
    for (Batch taken = queue.take(batch); !taken.empty(); taken = queue.take(batch)) {
      const auto texts = serving.answer(taken);  // generate_each(model, taken)
      for (std::size_t i = 0; i < taken.size(); ++i) tell(taken[i].options.seed, texts[i].tokens);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < n_threads; ++t) threads.emplace_back(answer_requests);
  std::string line;
  for (std::size_t number = 0; std::getline(in, line); ++number) {
    Tokens prompt = read_tokens(line);
    if (prompt.empty())
      tell(number, {});
    else
      queue.add({std::move(prompt), {.max_tokens = 16, .seed = number}});
  }
  queue.close();
  for (std::thread& thread : threads) thread.join();
}

// The answers to forty requests.
std::set<std::string> answers(const Serving& serving, std::size_t n_threads) {
  std::stringstream in, out;
  for (int i = 0; i < 40; ++i) in << i << " " << 2 * i << "\n";
  serve(serving, n_threads, /*batch=*/1, in, out);
  std::set<std::string> lines;
  for (std::string line; std::getline(out, line);) lines.insert(line);
  return lines;
}

int main(int argc, char** argv) {
  const Serving serving;
  if (argc == 1) {
    const bool are_equal = answers(serving, 8) == answers(serving, 1);
    std::cout << "eight threads " << (are_equal ? "answer" : "do not answer") << " as one\n";
    return are_equal ? 0 : 1;
  }
  const int threads = std::atoi(argv[1]), batch = argc == 3 ? std::atoi(argv[2]) : 0;
  if (threads <= 0 || batch <= 0) {
    std::cerr << "server: expected THREADS BATCH, both positive, or nothing\n";
    return 2;
  }
  serve(serving, static_cast<std::size_t>(threads), static_cast<std::size_t>(batch), std::cin, std::cout);
  return 0;
}
