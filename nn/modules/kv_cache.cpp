// Storing, reordering and reading cached keys and values. A block holds `capacity` rows for each sequence.
#include "kv_cache.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Huge pages: a step reads a little from every page that earlier steps wrote.
Memory cache_memory(std::size_t elements) { return Memory(elements * sizeof(real), /*huge=*/true); }

std::size_t index(int number) { return static_cast<std::size_t>(number); }

std::vector<int> multiples(std::size_t count, int factor) {
  std::vector<int> values(count + 1);
  for (std::size_t i = 0; i <= count; ++i) values[i] = static_cast<int>(i) * factor;
  return values;
}

// The parents of each source's sequences must be sequences of that source.
void check_select(std::span<const int> parents, Offsets offsets, Offsets old) {
  const int last = offsets.empty() ? 0 : offsets.back();
  const bool fits = offsets.size() == old.size() && offsets[0] == 0 && index(last) == parents.size();
  check(fits, "decode: ", parents.size(), " rows selected for ", old.size() - 1, " sources, but their offsets are ",
        offsets.size(), " and end with ", last);
  for (std::size_t s = 0; s + 1 < old.size(); ++s) {
    const int begin = offsets[s];
    const int end = offsets[s + 1];
    check(begin <= end && end <= last, "decode: offsets decrease at source ", s);
    for (int i = begin; i < end; ++i) {
      const int parent = parents[index(i)];
      const bool has_same_source = parent >= old[s] && parent < old[s + 1];
      check<IndexError>(has_same_source, "decode: row ", i, " of source ", s, " cannot continue row ", parent,
                        ", whose source is another");
    }
  }
}

// With a cache, a sequence's keys are all its positions so far; valid lengths count them from the first one.
void check_cached_mask(const Mask& mask, std::span<const int> positions) {
  check<ArgumentError>(mask.is_causal && mask.query_lengths.empty() && mask.pairs.empty(),
                       "attention: with a cache the mask must be causal, with or without valid lengths");
  if (mask.lengths.empty()) return;
  check(mask.lengths.size() == positions.size(), "attention: mask has ", mask.lengths.size(), " valid lengths for ",
        positions.size(), " cached sequences");
  for (std::size_t s = 0; s < positions.size(); ++s) {
    const int length = mask.lengths[s];
    check<IndexError>(length >= 0 && length <= positions[s], "attention: valid length ", length, " of cached sequence ",
                      s, " is not in 0..", positions[s]);
  }
}

void copy_row(const Columns& from, int row, real* to) {
  const std::size_t cols = from.matrix.cols();
  const real* const first = from.matrix.data() + index(row) * cols + from.first;
  std::copy_n(first, from.count, to);
}

std::size_t size_of_cache(const char* what, int size) {
  check<ArgumentError>(size > 0, "cache: ", what, " ", size, " is not positive");
  return index(size);
}

}  // namespace

KeyValueCache::KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int kv_width)
    : capacity_(size_of_cache("capacity", capacity)),
      width_(2 * size_of_cache("kv_width", kv_width)),
      lengths_(sequences),
      begins_(multiples(sequences, capacity)),
      grown_(sequences),
      source_offsets_(multiples(sequences, 1)),
      memory_(layers),
      memory_rows_(layers) {
  for (std::size_t l = 0; l < layers; ++l) self_.push_back(cache_memory(sequences * capacity_ * width_));
}

std::span<const int> KeyValueCache::extend(Offsets offsets) {
  check<StateError>(!tape().records(), "decode: a cache needs Mode::eval; gradients would not reach cached positions");
  check(offsets.size() == lengths_.size() + 1, "decode: ", offsets.size() - 1, " sequences for a cache of ",
        lengths_.size());
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    const int count = offsets[s + 1] - offsets[s];
    check<StateError>(index(lengths_[s] + count) <= capacity_, "decode: ", count, " positions more than the ",
                      lengths_[s], " of sequence ", s, " do not fit the cache of ", capacity_);
  }
  int* const first = tape().allocate<int>(lengths_.size());
  is_step_ = true;
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    first[s] = lengths_[s];
    grown_[s] = offsets[s + 1] - offsets[s];
    lengths_[s] += grown_[s];
    if (grown_[s] != 1) is_step_ = false;
  }
  return {first, lengths_.size()};
}

void KeyValueCache::check_layer(std::size_t layer) const {
  check<IndexError>(layer < self_.size(), "decode: layer ", layer, " of a cache of ", self_.size(), " layers");
}

void KeyValueCache::check_append(std::size_t layer, const KeysValues& fresh) const {
  check_layer(layer);
  check(fresh.offsets.size() == lengths_.size() + 1, "decode: ", fresh.offsets.size() - 1, " sequences for a cache of ",
        lengths_.size());
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    const int count = fresh.offsets[s + 1] - fresh.offsets[s];
    check<StateError>(count == grown_[s], "decode: sequence ", s, " has ", count,
                      " new positions, but extend() was told of ", grown_[s]);
  }
  check_cached_mask(fresh.mask, lengths_);
  const int kv_width = static_cast<int>(width_ / 2);
  const bool fits = fresh.k.count == kv_width && fresh.v.count == kv_width;
  check(fits, "decode: keys of ", fresh.k.count, " and values of ", fresh.v.count, " columns for a cache of kv_width ",
        kv_width);
}

KeysValues KeyValueCache::append(std::size_t layer, const KeysValues& fresh) {
  check_append(layer, fresh);
  store(layer, fresh);
  return is_step_ ? in_place(layer, fresh.mask) : packed(layer, fresh);
}

real* KeyValueCache::place_of(std::size_t layer, std::size_t sequence, int position) {
  const std::size_t row = sequence * capacity_ + index(position);
  return self_[layer].as<real>() + row * width_;
}

void KeyValueCache::store(std::size_t layer, const KeysValues& fresh) {
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    real* place = place_of(layer, s, lengths_[s] - grown_[s]);
    for (int row = fresh.offsets[s]; row < fresh.offsets[s + 1]; ++row) {
      copy_row(fresh.k, row, place);
      copy_row(fresh.v, row, place + width_ / 2);
      place += width_;
    }
  }
}

KeysValues KeyValueCache::columns_of(const Tensor& both, Offsets offsets, const Mask& mask) const {
  const int kv_width = static_cast<int>(width_ / 2);
  return {Columns(both, 0, kv_width), Columns(both, kv_width, kv_width), offsets, mask};
}

// One query for each sequence may attend to all its keys, so the block is used as it is, with free rows at the ends.
KeysValues KeyValueCache::in_place(std::size_t layer, const Mask& mask) {
  const Tensor block = tape().create_external({begins_.back(), static_cast<int>(width_)}, self_[layer].as<real>());
  const std::span<const int> all = lengths_;
  const std::span<const int> lengths = mask.lengths.empty() ? all : mask.lengths;
  return columns_of(block, begins_, Mask::valid_lengths(lengths));
}

// Of each sequence, the first position that its new queries see. Valid lengths count from position 0.
std::vector<int> KeyValueCache::first_seen(const KeysValues& fresh) const {
  std::vector<int> first(lengths_.size());
  if (fresh.window == 0 || !fresh.mask.lengths.empty()) return first;
  for (std::size_t s = 0; s < first.size(); ++s) first[s] = std::max(0, lengths_[s] - grown_[s] + 1 - fresh.window);
  return first;
}

// A causal mask aligns the last query with the last key, so the free rows between sequences are left out.
KeysValues KeyValueCache::packed(std::size_t layer, const KeysValues& fresh) {
  const std::vector<int> first = first_seen(fresh);
  int* const offsets = tape().allocate<int>(lengths_.size() + 1);
  offsets[0] = 0;
  for (std::size_t s = 0; s < lengths_.size(); ++s) offsets[s + 1] = offsets[s] + lengths_[s] - first[s];
  const Tensor rows = tape().create({offsets[lengths_.size()], static_cast<int>(width_)});
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    real* const to = rows.data() + index(offsets[s]) * width_;
    std::copy(place_of(layer, s, first[s]), place_of(layer, s, lengths_[s]), to);
  }
  return columns_of(rows, {offsets, lengths_.size() + 1}, fresh.mask);
}

Tensor KeyValueCache::memory(std::size_t layer, FunctionRef<Tensor()> compute) {
  check_layer(layer);
  Memory& kept = memory_[layer];
  if (!kept.data()) {
    const Tensor kv = compute();
    check(kv.cols() == width_, "decode: a memory of ", kv.cols(), " columns for a cache of kv_width ", width_ / 2);
    kept = cache_memory(kv.numel());
    memory_rows_[layer] = kv.size(0);
    std::copy_n(kv.data(), kv.numel(), kept.as<real>());
  }
  return tape().create_external({memory_rows_[layer], static_cast<int>(width_)}, kept.as<real>());
}

Offsets KeyValueCache::source_offsets(Offsets offsets) const {
  check(offsets.size() == index(source_offsets_.back()) + 1, "decode: ", offsets.size() - 1,
        " sequences, but the sources have ", source_offsets_.back(), "; select() was not told which");
  int* const begins = tape().allocate<int>(source_offsets_.size());
  for (std::size_t s = 0; s < source_offsets_.size(); ++s) begins[s] = offsets[index(source_offsets_[s])];
  return {begins, source_offsets_.size()};
}

std::size_t KeyValueCache::checked(std::size_t sequence) const {
  check<IndexError>(sequence < lengths_.size(), "decode: sequence ", sequence, " of a cache of ", lengths_.size());
  return sequence;
}

void KeyValueCache::select(std::span<const int> parents, Offsets source_offsets) {
  check_select(parents, source_offsets, source_offsets_);
  select(parents);
  source_offsets_.assign(source_offsets.begin(), source_offsets.end());
}

void KeyValueCache::select(std::span<const int> parents) {
  if (keeps_all(parents)) return;
  for (Memory& block : self_) reorder(block, parents);
  std::vector<int> lengths;
  for (const int parent : parents) lengths.push_back(lengths_[index(parent)]);
  lengths_ = std::move(lengths);
  grown_.assign(lengths_.size(), 0);
  begins_ = multiples(parents.size(), static_cast<int>(capacity_));
  source_offsets_ = {0};  // unknown until the other select() is called
}

bool KeyValueCache::keeps_all(std::span<const int> parents) const {
  bool keeps = parents.size() == lengths_.size();
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (checked(index(parents[i])) != i) keeps = false;
  return keeps;
}

// Only the positions in use are copied.
void KeyValueCache::reorder(Memory& block, std::span<const int> parents) {
  const std::size_t elements = capacity_ * width_;  // of a sequence
  const std::size_t needed = parents.size() * elements;
  if (chosen_.size() < needed * sizeof(real)) chosen_ = cache_memory(needed);
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const std::size_t parent = index(parents[i]);
    const real* const from = block.as<real>() + parent * elements;
    std::copy_n(from, index(lengths_[parent]) * width_, chosen_.as<real>() + i * elements);
  }
  std::swap(block, chosen_);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
