// MultiHeadAttention: which rows of the stacked weight project what, around the op attention().
#include "multi_head_attention.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

bool has_own_inputs(const MultiHeadAttentionOptions& options) { return options.k_dim != 0 || options.v_dim != 0; }

// The columns of K, and of V.
int checked_kv_width(const Scope& s, int d_model, int n_heads, int n_kv_heads) {
  check<ArgumentError>(n_heads > 0 && d_model % n_heads == 0, "attention: d_model ", d_model, " is not a multiple of ",
                       n_heads, " heads (", s.path(), ")");
  check<ArgumentError>(n_kv_heads >= 0 && (n_kv_heads == 0 || n_heads % n_kv_heads == 0), "attention: ", n_heads,
                       " heads are not a multiple of ", n_kv_heads, " of keys and values (", s.path(), ")");
  return n_kv_heads == 0 ? d_model : d_model / n_heads * n_kv_heads;
}

// The projection of the queries or, unless keys and values have inputs of their own, of all three.
Linear input_projection(const Scope& s, int d_model, int kv_width, const MultiHeadAttentionOptions& options) {
  const bool is_stacked = !has_own_inputs(options);
  const int out = is_stacked ? d_model + 2 * kv_width : d_model;
  const bool is_one_matrix = !is_stacked || s.initialisation() == Initialisation::pytorch;
  const Init init = init_xavier_uniform(1, is_one_matrix ? 1 : 3);
  return Linear(s / "in_proj", d_model, out, {.bias = options.bias, .init = init, .bias_init = init_zeros()});
}

void check_no_rotary(const AttentionExtras& extras) {
  check<ArgumentError>(!extras.positions.rotary.defined(), "attention: rotary positions need self-attention");
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& s, int width, int heads, const MultiHeadAttentionOptions& options)
    : d_model(width),
      n_heads(heads),
      kv_width(checked_kv_width(s, width, heads, options.n_kv_heads)),
      in_proj(input_projection(s, width, kv_width, options)),
      out_proj(s / "out_proj", width, width, {.bias = options.bias, .bias_init = init_zeros()}),
      dropout(options.dropout),
      softcap(options.softcap),
      name(s.region()) {
  if (!has_own_inputs(options)) return;
  const LinearOptions own{.bias = options.bias, .init = init_xavier_uniform(), .bias_init = init_zeros()};
  k_proj.emplace(s / "k_proj", options.k_dim != 0 ? options.k_dim : width, kv_width, own);
  v_proj.emplace(s / "v_proj", options.v_dim != 0 ? options.v_dim : width, kv_width, own);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, Offsets offsets, const AttentionExtras& extras) const {
  const Region here(name);
  const Tensor qkv = in_proj(x);  // [rows, d_model + 2 kv_width]
  Columns q(qkv, 0, d_model);
  Columns k(qkv, d_model, kv_width);
  const Columns v(qkv, d_model + kv_width, kv_width);
  const AttentionPositions& positions = extras.positions;
  if (positions.rotary.defined()) {
    const Columns qk(qkv, 0, d_model + kv_width);
    const int heads = qk.count / (d_model / n_heads);  // of queries and keys
    const Tensor turned = rotary(qk, heads, positions.rotary, positions.ids, positions.pairs);
    q = Columns(turned, 0, d_model);
    k = Columns(turned, d_model, kv_width);
  }
  KeysValues kv{.k = k, .v = v, .offsets = offsets, .mask = extras.mask};
  if (extras.cache) kv = extras.cache->append(extras.layer, kv);
  return here(attend(q, offsets, kv, extras));
}

Tensor MultiHeadAttention::operator()(const Tensor& x, Offsets offsets, const Tensor& memory, Offsets memory_offsets,
                                      const AttentionExtras& extras) const {
  const Region here(name);
  check_no_rotary(extras);
  const Tensor q = project(x, 0, d_model);
  const auto project_memory = [&] { return project(memory, d_model, d_model + 2 * kv_width); };
  Tensor kv;  // [memory rows, 2 kv_width]
  Offsets q_offsets = offsets;
  if (extras.cache) {
    kv = extras.cache->memory(extras.layer, project_memory);
    q_offsets = extras.cache->source_offsets(offsets);
  } else {
    kv = project_memory();
  }
  const Columns k(kv, 0, kv_width);
  const Columns v(kv, kv_width, kv_width);
  return here(attend(q, q_offsets, {k, v, memory_offsets, extras.mask}, extras));
}

Tensor MultiHeadAttention::operator()(const Tensor& query, Offsets offsets, const Tensor& key, const Tensor& value,
                                      Offsets k_offsets, const AttentionExtras& extras) const {
  const Region here(name);
  check_no_rotary(extras);
  check<ArgumentError>(!extras.cache, "attention: with three inputs it takes no cache");
  const int k_end = d_model + kv_width;  // in the stacked weight
  const Tensor q = project(query, 0, d_model);
  const Tensor k = k_proj ? (*k_proj)(key) : project(key, d_model, k_end);
  const Tensor v = v_proj ? (*v_proj)(value) : project(value, k_end, k_end + kv_width);
  return here(attend(q, offsets, {k, v, k_offsets, extras.mask}, extras));
}

// The projection by rows begin .. end-1 of the stacked weight.
Tensor MultiHeadAttention::project(const Tensor& x, int begin, int end) const {
  const Tensor weight = slice(in_proj.weight, 0, begin, end);
  const Tensor bias = in_proj.bias.defined() ? slice(in_proj.bias, 0, begin, end) : Tensor();
  return linear(x, weight, bias);
}

// The mask is that of kv, which a cache may have changed.
Tensor MultiHeadAttention::attend(const Columns& q, Offsets offsets, const KeysValues& kv,
                                  const AttentionExtras& extras) const {
  const AttentionOptions options{.mask = kv.mask,
                                 .dropout = dropout,
                                 .bias = extras.bias,
                                 .slopes = extras.positions.slopes,
                                 .positions = extras.positions.ids,
                                 .softcap = softcap};
  return out_proj(attention(q, kv.k, kv.v, n_heads, offsets, kv.offsets, options));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
