// Ranks: the processes of one training, on one machine or many, as `mpirun -n 4 PROGRAM` starts them (Message Passing
// Interface Forum, MPI). Each runs the same program; Trainer and evaluate() share their work among the ranks. A library
// built without MPI has one rank and no trace of it.
//
// Where a message does not come in time, or is damaged, all ranks end with exit code 1 and a line that names the rank.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo::inline SEPPO_ABI {

struct RankMessage {
  int rank;  // it goes to, or comes from
  void* data;
  std::size_t bytes;
};

#ifdef SEPPO_MPI
int rank();   // of this process: 0 .. ranks() - 1
int ranks();  // 1 outside of mpirun

// How long a rank waits for another, 60 s until set, and what an error says it is waiting for.
void set_rank_timeout(double seconds);
void set_rank_phase(std::string phase);
// Ends all ranks. A program calls it where one has failed; who returns from main() instead waits for the others.
[[noreturn]] void end_all_ranks(int exit_code);

// All ranks must call these in the same order. What each rank gives, by rank:
std::vector<std::string> gather_over_ranks(std::string_view mine);
// numbers += those of all other ranks, added in the order of the ranks.
void add_over_ranks(std::span<double> numbers);
// Sends and receives messages, those of a pair of ranks in their order. Each carries a digest.
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

// Throws StateError that names a rank whose `value` is not that of the first one.
void check_equal_over_ranks(std::string_view what, std::string_view value);

}  // namespace seppo::inline SEPPO_ABI
