// Ranks: the processes of one training, on one machine or many, as `mpirun -n 4 PROGRAM` starts them (Message Passing
// Interface Forum, MPI). Each runs the same program; Trainer and evaluate() share their work among the ranks. A library
// built without MPI has one rank and no trace of it.
//
// If a message is late or damaged, all ranks end with exit code 1 and a line that names the rank.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct RankMessage {
  int rank;  // the receiver or the sender
  void* data;
  std::size_t bytes;
};

#ifdef SEPPO_MPI
int rank();   // of this process: 0 .. ranks() - 1
int ranks();  // 1 outside of mpirun

// How long a rank waits for another (60 s until set), and what it waits for, as an error says.
void set_rank_timeout(double seconds);
void set_rank_phase(std::string phase);
// Ends all ranks. A program calls it when one has failed; returning from main() instead would wait for the others.
[[noreturn]] void end_all_ranks(int exit_code);

// All ranks must call these in the same order. This one returns what each rank gives, by rank.
std::vector<std::string> gather_over_ranks(std::string_view mine);
// Sums over all ranks, in the order of the ranks; `numbers` is replaced by the sums.
void add_over_ranks(std::span<double> numbers);
// Sends and receives messages; those between two ranks keep their order. Each carries a digest.
void swap_messages(std::span<const RankMessage> sent, std::span<const RankMessage> received);
#else
constexpr int rank() { return 0; }
constexpr int ranks() { return 1; }
inline void set_rank_timeout(double) {}
inline void set_rank_phase(const std::string&) {}
[[noreturn]] inline void end_all_ranks(int exit_code) { std::_Exit(exit_code); }
inline std::vector<std::string> gather_over_ranks(std::string_view mine) { return {std::string(mine)}; }
inline void add_over_ranks(std::span<double>) {}
inline void swap_messages(std::span<const RankMessage>, std::span<const RankMessage>) {}
#endif

// Throws StateError, naming a rank whose `value` differs from the first rank's.
void check_equal_over_ranks(std::string_view what, std::string_view value);
// The same for values that have names, such as the options of a program; also if a rank lacks one.
void check_equal_over_ranks(const std::map<std::string, std::string>& values);

}  // namespace SEPPO_ABI
}  // namespace seppo
