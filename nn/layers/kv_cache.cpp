// Storing, reordering and reading cached keys and values. A layer's block holds `capacity` rows for each sequence, of
// which the first length(sequence) are in use.
#include "kv_cache.h"

#include <algorithm>
#include <numeric>

namespace seppo::inline SEPPO_ABI {
namespace {

// A step reads a little from each page of what earlier steps wrote.
Memory cache_memory(std::size_t elements) { return Memory(elements * sizeof(real), /*huge=*/true); }

std::vector<int> multiples(std::size_t count, int factor) {
  std::vector<int> values(count + 1);
  for (std::size_t i = 0; i <= count; ++i) values[i] = static_cast<int>(i) * factor;
  return values;
}

// The parents of each source's sequences must be sequences of that source.
void check_select(std::span<const int> parents, Offsets source_rows, Offsets old) {
  check(
      source_rows.size() == old.size() && source_rows[0] == 0 && source_rows.back() == static_cast<int>(parents.size()),
      "decode: ", parents.size(), " rows selected for ", old.size() - 1, " sources, but their offsets are ",
      source_rows.size(), " and end with ", source_rows.empty() ? 0 : source_rows.back());
  for (std::size_t s = 0; s + 1 < old.size(); ++s) {
    check(source_rows[s] <= source_rows[s + 1], "decode: offsets decrease at source ", s);
    for (int i = source_rows[s]; i < source_rows[s + 1]; ++i) {
      const int parent = parents[static_cast<std::size_t>(i)];
      check<IndexError>(parent >= old[s] && parent < old[s + 1], "decode: row ", i, " of source ", s,
                        " cannot continue row ", parent, ", whose source is another");
    }
  }
}

}  // namespace

KeyValueCache::KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int d_model)
    : capacity_(static_cast<std::size_t>(capacity)),
      width_(2 * static_cast<std::size_t>(d_model)),
      lengths_(sequences),
      begins_(multiples(sequences, capacity)),
      source_rows_(multiples(sequences, 1)),
      memory_(layers),
      memory_rows_(layers) {
  for (std::size_t l = 0; l < layers; ++l) self_.push_back(cache_memory(sequences * capacity_ * width_));
}

std::span<const int> KeyValueCache::extend(Offsets rows) {
  check<StateError>(!tape().records(), "decode: a cache needs Mode::eval; gradients would not reach cached positions");
  check(rows.size() == lengths_.size() + 1, "decode: ", rows.size() - 1, " sequences for a cache of ", lengths_.size());
  int* const first = tape().allocate<int>(lengths_.size());
  is_step_ = true;
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    const int count = rows[s + 1] - rows[s];
    check<StateError>(static_cast<std::size_t>(lengths_[s] + count) <= capacity_, "decode: ", count,
                      " positions more than the ", lengths_[s], " of sequence ", s, " do not fit the cache of ",
                      capacity_);
    first[s] = lengths_[s];
    is_step_ = is_step_ && count == 1;
  }
  for (std::size_t s = 0; s < lengths_.size(); ++s) lengths_[s] += rows[s + 1] - rows[s];
  return {first, lengths_.size()};
}

KeysValues KeyValueCache::append(std::size_t layer, const KeysValues& fresh) {
  check<ArgumentError>(fresh.mask.is_causal, "attention: with a cache the mask must be causal");
  real* const block = self_[layer].as<real>();
  const auto [matrix, first_column, columns] = fresh.columns;
  const auto row_of = [&](std::size_t s, int position) {
    return block + (s * capacity_ + static_cast<std::size_t>(position)) * width_;
  };
  for (std::size_t s = 0; s < lengths_.size(); ++s)
    for (int row = fresh.rows[s], n = lengths_[s] - (fresh.rows[s + 1] - row); n < lengths_[s]; ++row, ++n)
      std::copy_n(matrix.data() + static_cast<std::size_t>(row) * matrix.cols() + first_column, width_, row_of(s, n));
  if (is_step_) {
    const Tensor all = tape().create_external({begins_.back(), columns}, block);
    return {all, begins_, Mask::valid_lengths(lengths_)};
  }
  // A causal mask aligns the last query with the last key: sequences without the free rows between them.
  int* const offsets = tape().allocate<int>(lengths_.size() + 1);
  offsets[0] = 0;
  std::partial_sum(lengths_.begin(), lengths_.end(), offsets + 1);
  const Tensor packed = tape().create({offsets[lengths_.size()], columns});
  for (std::size_t s = 0; s < lengths_.size(); ++s)
    std::copy_n(row_of(s, 0), static_cast<std::size_t>(lengths_[s]) * width_,
                packed.data() + static_cast<std::size_t>(offsets[s]) * width_);
  return {packed, {offsets, lengths_.size() + 1}, Mask::causal()};
}

Tensor KeyValueCache::memory(std::size_t layer, FunctionRef<Tensor()> compute) {
  if (!memory_[layer].data()) {
    const Tensor kv = compute();
    memory_[layer] = cache_memory(kv.numel());
    memory_rows_[layer] = kv.size(0);
    std::copy_n(kv.data(), kv.numel(), memory_[layer].as<real>());
  }
  return tape().create_external({memory_rows_[layer], static_cast<int>(width_)}, memory_[layer].as<real>());
}

void KeyValueCache::select(std::span<const int> parents) {
  const std::size_t row = capacity_ * width_;
  for (Memory& kv : self_) {
    if (chosen_.size() < parents.size() * row * sizeof(real)) chosen_ = cache_memory(parents.size() * row);
    for (std::size_t i = 0; i < parents.size(); ++i) {
      const auto parent = static_cast<std::size_t>(parents[i]);
      std::copy_n(kv.as<real>() + parent * row, static_cast<std::size_t>(lengths_[parent]) * width_,
                  chosen_.as<real>() + i * row);
    }
    std::swap(kv, chosen_);
  }
  std::vector<int> lengths;
  for (const int parent : parents) lengths.push_back(lengths_[static_cast<std::size_t>(parent)]);
  lengths_ = std::move(lengths);
  begins_ = multiples(parents.size(), static_cast<int>(capacity_));
}

void KeyValueCache::select(std::span<const int> parents, Offsets source_rows) {
  check_select(parents, source_rows, source_rows_);
  select(parents);
  source_rows_.assign(source_rows.begin(), source_rows.end());
}

}  // namespace seppo::inline SEPPO_ABI
