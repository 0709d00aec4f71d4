// MultiHeadAttention: which rows of the stacked weight project what, around the op attention().
#include "multi_head_attention.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

bool has_own_inputs(const MultiHeadAttentionOptions& options) { return options.k_dim != 0 || options.v_dim != 0; }

// The columns of a head.
int checked_width(const Scope& s, int d_model, int n_heads, const MultiHeadAttentionOptions& options) {
  const int n_kv_heads = options.n_kv_heads;
  const bool has_width = options.head_width > 0 || (n_heads > 0 && d_model % n_heads == 0);
  check<ArgumentError>(n_heads > 0 && options.head_width >= 0 && has_width, "attention: d_model ", d_model,
                       " is not a multiple of ", n_heads, " heads (", s.path(), ")");
  check<ArgumentError>(n_kv_heads >= 0 && (n_kv_heads == 0 || n_heads % n_kv_heads == 0), "attention: ", n_heads,
                       " heads are not a multiple of ", n_kv_heads, " of keys and values (", s.path(), ")");
  return options.head_width > 0 ? options.head_width : d_model / n_heads;
}

int kv_heads(int n_heads, const MultiHeadAttentionOptions& options) {
  return options.n_kv_heads == 0 ? n_heads : options.n_kv_heads;
}

// The projection of the queries or, unless keys and values have inputs of their own, of all three.
Linear input_projection(const Scope& s, int d_model, int q_width, int kv_width,
                        const MultiHeadAttentionOptions& options) {
  const bool is_stacked = !has_own_inputs(options);
  const int out = is_stacked ? q_width + 2 * kv_width : q_width;
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
      q_width(checked_width(s, width, heads, options) * heads),
      kv_width(q_width / heads * kv_heads(heads, options)),
      in_proj(input_projection(s, width, q_width, kv_width, options)),
      out_proj(s / "out_proj", q_width, width,
               {.bias = options.out_bias.value_or(options.bias), .bias_init = init_zeros()}),
      dropout(options.dropout),
      softcap(options.softcap),
      scale(options.scale),
      window(options.window),
      name(s.region()) {
  if (options.qk_norm != QkNorm::none) {
    const bool is_whole = options.qk_norm == QkNorm::width;
    q_norm.emplace(s / "q_norm", is_whole ? q_width : q_width / heads, options.qk_norm_options);
    k_norm.emplace(s / "k_norm", is_whole ? kv_width : q_width / heads, options.qk_norm_options);
  }
  if (!has_own_inputs(options)) return;
  const LinearOptions own{.bias = options.bias, .init = init_xavier_uniform(), .bias_init = init_zeros()};
  k_proj.emplace(s / "k_proj", options.k_dim != 0 ? options.k_dim : width, kv_width, own);
  v_proj.emplace(s / "v_proj", options.v_dim != 0 ? options.v_dim : width, kv_width, own);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, Offsets offsets, const AttentionExtras& extras) const {
  const Region here(name);
  const Tensor qkv = in_proj(x);  // [rows, q_width + 2 kv_width]
  Columns q(qkv, 0, q_width);
  Columns k(qkv, q_width, kv_width);
  const Columns v(qkv, q_width + kv_width, kv_width);
  const AttentionPositions& positions = extras.positions;
  if (q_norm) {
    q = prepared(q, q_norm, positions);
    k = prepared(k, k_norm, positions);
  } else if (positions.rotary.defined()) {
    const Columns turned = prepared(Columns(qkv, 0, q_width + kv_width), {}, positions);
    q = Columns(turned.matrix, 0, q_width);
    k = Columns(turned.matrix, q_width, kv_width);
  }
  KeysValues kv{.k = k, .v = v, .offsets = offsets, .mask = extras.mask};
  if (positions.slopes.empty() && !extras.bias.defined()) kv.window = window;
  if (extras.cache) kv = extras.cache->append(extras.layer, kv);
  return here(attend(q, offsets, kv, extras));
}

Tensor MultiHeadAttention::operator()(const Tensor& x, Offsets offsets, const Tensor& memory, Offsets memory_offsets,
                                      const AttentionExtras& extras) const {
  const Region here(name);
  check_no_rotary(extras);
  const Tensor q = project(x, 0, q_width);
  const auto project_memory = [&] { return project(memory, q_width, q_width + 2 * kv_width); };
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
  const int k_end = q_width + kv_width;  // in the stacked weight
  const Tensor q = project(query, 0, q_width);
  const Tensor k = k_proj ? (*k_proj)(key) : project(key, q_width, k_end);
  const Tensor v = v_proj ? (*v_proj)(value) : project(value, k_end, k_end + kv_width);
  return here(attend(q, offsets, {k, v, k_offsets, extras.mask}, extras));
}

// Queries or keys, normed and rotated.
Columns MultiHeadAttention::prepared(const Columns& x, const std::optional<LayerNorm>& norm,
                                     const AttentionPositions& positions) const {
  Columns y = x;
  if (norm) {
    const Tensor own = slice(x.matrix, 1, x.first, x.first + x.count);
    y = reshape((*norm)(reshape(own, {-1, norm->weight.size(0)})), own.shape());
  }
  if (!positions.rotary.defined()) return y;
  const int heads = y.count / (q_width / n_heads);
  return rotary(y, heads, positions.rotary, positions.ids, positions.pairs);
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
                                 .softcap = softcap,
                                 .scale = scale,
                                 .window = window};
  return out_proj(attention(q, kv.k, kv.v, n_heads, offsets, kv.offsets, options));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
