// Ranks, on MPI: only point-to-point messages, so that it is known which rank is late.
#include "ranks.h"

#include "../../autograd/core/check.h"

#ifdef SEPPO_MPI
#define OMPI_SKIP_MPICXX 1  // the C++ interface, gone since MPI 3
#define MPICH_SKIP_MPICXX 1
#define XXH_INLINE_ALL
#include <mpi.h>
#include <xxhash.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#endif

namespace seppo {
inline namespace SEPPO_ABI {

#ifdef SEPPO_MPI
namespace {

double timeout = 60;
std::string phase = "the start";

struct Job {
  int rank = 0, ranks = 1;
};
// mpirun (of Open MPI, MPICH or Slurm) sets these in the processes that it starts.
const Job& job() {
  static const Job job = [] {
    Job j;
    if (!std::getenv("OMPI_COMM_WORLD_SIZE") && !std::getenv("PMI_SIZE") && !std::getenv("PMIX_RANK")) return j;
    int is_running = 0, provided = 0;
    MPI_Initialized(&is_running);
    if (!is_running) {
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
      std::atexit([] { MPI_Finalize(); });
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.ranks);
    return j;
  }();
  return job;
}

[[noreturn]] void end_with(const std::string& message) {
  std::fprintf(stderr, "rank %d: %s\n", rank(), message.c_str());
  end_all_ranks(1);
}

void check_mpi(int code) {
  if (code != MPI_SUCCESS) end_with(concat_text("MPI failed with error ", code, " at ", phase));
}

// Messages under way, each followed by its digest.
class Exchange {
 public:
  Exchange(std::span<const RankMessage> sent, std::span<const RankMessage> received)
      : sent_(sent), received_(received), digests_(received.size() + sent.size()), requests_(2 * digests_.size()) {
    for (std::size_t i = 0; i < received.size(); ++i) post(MPI_Irecv, received[i], i);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      digests_[received.size() + i] = XXH3_64bits(sent[i].data, sent[i].bytes);
      post(MPI_Isend, sent[i], received.size() + i);
    }
  }

  void wait() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    for (int spin = 0; !is_done(); ++spin) {
      if (spin > 2000) std::this_thread::sleep_for(std::chrono::microseconds(20));
      const bool looks_at_clock = spin % 64 == 0;
      if (looks_at_clock && std::chrono::duration<double>(Clock::now() - start).count() >= timeout) end_if_late();
    }
  }

  void check_digests() const {
    for (std::size_t i = 0; i < received_.size(); ++i)
      if (XXH3_64bits(received_[i].data, received_[i].bytes) != digests_[i])
        end_with(concat_text("a message from rank ", received_[i].rank, " was damaged on its way, at ", phase));
  }

 private:
  // Starts message i, counted from the first one received, and its digest.
  template <class Function>
  void post(Function function, const RankMessage& m, std::size_t i) {
    check<ArgumentError>(m.bytes <= std::size_t{1} << 30, "ranks: a message of ", m.bytes, " bytes");
    const auto bytes = static_cast<int>(m.bytes);
    MPI_Request* const requests = &requests_[2 * i];
    check_mpi(function(m.data, bytes, MPI_BYTE, m.rank, 0, MPI_COMM_WORLD, &requests[0]));
    check_mpi(function(&digests_[i], sizeof digests_[i], MPI_BYTE, m.rank, 1, MPI_COMM_WORLD, &requests[1]));
  }

  bool is_done() {
    int is_done = 0;
    const auto count = static_cast<int>(requests_.size());
    check_mpi(MPI_Testall(count, requests_.data(), &is_done, MPI_STATUSES_IGNORE));
    return is_done;
  }

  // A message that was sent, or a digest, may be what is not over.
  void end_if_late() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      int is_over = 0;
      check_mpi(MPI_Request_get_status(requests_[i], &is_over, MPI_STATUS_IGNORE));
      if (is_over) continue;
      const std::size_t message = i / 2;
      const bool is_received = message < received_.size();
      const int other = is_received ? received_[message].rank : sent_[message - received_.size()].rank;
      end_with(concat_text("rank ", other, " did not reach ", phase, " within ", timeout, " s"));
    }
  }

  std::span<const RankMessage> sent_, received_;
  std::vector<XXH64_hash_t> digests_;
  std::vector<MPI_Request> requests_;  // of message i: 2 i, and of its digest: 2 i + 1
};

// Sends `mine` to all other ranks, and receives theirs, whose sizes are those of the strings in `all`.
void swap_with_all(std::string mine, std::vector<std::string>& all) {
  std::vector<RankMessage> sent, received;
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank()) continue;
    std::string& theirs = all[static_cast<std::size_t>(other)];
    sent.push_back({other, mine.data(), mine.size()});
    received.push_back({other, theirs.data(), theirs.size()});
  }
  swap_messages(sent, received);
  all[static_cast<std::size_t>(rank())] = std::move(mine);
}

}  // namespace

int rank() { return job().rank; }
int ranks() { return job().ranks; }
void set_rank_timeout(double seconds) { timeout = seconds; }
void set_rank_phase(std::string text) { phase = std::move(text); }

void end_all_ranks(int exit_code) {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

void swap_messages(std::span<const RankMessage> sent, std::span<const RankMessage> received) {
  if (ranks() == 1) return;
  Exchange exchange(sent, received);
  exchange.wait();
  exchange.check_digests();
}

std::vector<std::string> gather_over_ranks(std::string_view mine) {
  const std::size_t size = mine.size();
  std::vector<std::string> all(static_cast<std::size_t>(ranks()), std::string(sizeof size, '\0'));
  swap_with_all({reinterpret_cast<const char*>(&size), sizeof size}, all);
  for (std::string& text : all) {
    std::size_t theirs;
    std::memcpy(&theirs, text.data(), sizeof theirs);
    text.resize(theirs);
  }
  swap_with_all(std::string(mine), all);
  return all;
}

void add_over_ranks(std::span<double> numbers) {
  if (ranks() == 1) return;
  std::vector<std::string> all(static_cast<std::size_t>(ranks()), std::string(numbers.size_bytes(), '\0'));
  swap_with_all({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()}, all);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 0;
    for (const std::string& theirs : all) {
      double number;
      std::memcpy(&number, theirs.data() + i * sizeof number, sizeof number);
      numbers[i] += number;
    }
  }
}
#endif

namespace {

constexpr char kEnd = '\0';  // of each name and value in a message

std::map<std::string, std::string> named_values(std::string_view message) {
  const auto next = [&] {
    const std::size_t end = message.find(kEnd);
    std::string text(message.substr(0, end));
    message.remove_prefix(end + 1);
    return text;
  };
  std::map<std::string, std::string> values;
  while (!message.empty()) {
    const std::string name = next();
    values[name] = next();
  }
  return values;
}

std::string value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "no value" : found->second;
}

}  // namespace

void check_equal_over_ranks(std::string_view what, std::string_view value) {
  const std::vector<std::string> all = gather_over_ranks(value);
  for (std::size_t other = 1; other < all.size(); ++other)
    check<StateError>(all[other] == all[0], what, " differs between ranks: rank 0 has ", all[0], ", rank ", other,
                      " has ", all[other]);
}

void check_equal_over_ranks(const std::map<std::string, std::string>& values) {
  if (ranks() == 1) return;
  std::string mine;
  for (const auto& [name, value] : values) mine += name + kEnd + value + kEnd;
  const std::vector<std::string> all = gather_over_ranks(mine);
  const auto first = named_values(all[0]);
  for (std::size_t other = 1; other < all.size(); ++other) {
    const auto theirs = named_values(all[other]);
    for (const auto* names : {&first, &theirs})
      for (const auto& [name, value] : *names)
        check<StateError>(value_of(first, name) == value_of(theirs, name), name, " differs between ranks: rank 0 has ",
                          value_of(first, name), ", rank ", other, " has ", value_of(theirs, name));
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo
