// Keys: what config.json and a LanguageModelConfig both say, in both directions. A family's table (family.h) lists
// them.
#pragma once

#include "../../language_model.h"
#include "../config_keys.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct Key {
  // Both are called in the order of the table, so that a key may depend on those before it.
  std::function<void(const ConfigKeys& keys, LanguageModelConfig& model)> read;
  std::function<void(nlohmann::json& all, LanguageModelConfig model)> write;
};
using Keys = std::vector<Key>;

Keys operator+(Keys a, const Keys& b);

// ---- kinds of keys. `names`, "hidden_size|n_embed": the first is written; the others are read too, from older files.

class Names {
 public:
  explicit Names(const std::string& names);
  const std::vector<std::string>& all() const { return all_; }
  const std::string& first() const { return all_.front(); }
  const std::string& in(const ConfigKeys& keys) const;  // the first that is there and not null, or the first

 private:
  std::vector<std::string> all_;
};

// The member of a config that a key stands for.
template <class T>
using Member = T& (*)(LanguageModelConfig&);

// Without a fallback the key must be there.
Key integer(const std::string& names, Member<int> member, std::optional<int> fallback = {});
Key number(const std::string& names, Member<double> member, double fallback);
// Above 0.
Key positive(const std::string& name, Member<double> member, double fallback);
Key flag(const std::string& name, Member<bool> member, bool fallback);
// A flag for biases of several kinds.
Key biases(const std::string& name, const std::vector<Member<std::optional<bool>>>& members, bool fallback);
// One of these values, which all mean the same; the first is the default, and is written.
Key only(const std::string& name, const nlohmann::json& values);
// A key that makes no difference in this family.
Key ignored(const std::string& name);
// A number whose inverse is the member.
Key inverse(const std::string& name, Member<double> member, double fallback);
// What products of queries and keys are divided by the square root of.
Key query_scalar(const std::string& name, double fallback);
// A number, or null for 0. Without the key, `missing`.
Key cap(const std::string& name, Member<double> member, double missing);

enum class Gate { no, yes };
// An activation by Hugging Face's name; the fallback's name is one of them.
Key activation(const std::string& names, Gate gate, const std::string& fallback);

// The number of heads of keys and values: if it is null, that of queries; if it is missing, that or `usual`, unless 0.
Key kv_heads(int usual = 0);
// The columns of a head: without the key `fallback` or, if that is 0, d_model / n_heads.
Key head_width(int fallback = 0);
// A width that must be that of the model.
Key as_wide_as_the_model(const std::string& name);
// Whether queries and keys have norms, each head by itself.
Key qk_norms(const std::string& name);
// The width of the feed-forward networks; if it is missing or null, four times that of the model, the key `width`.
Key inner_width(const std::string& names, const std::string& width);
// The same where the key, which may be there, can say nothing else.
Key four_times_as_wide(const std::string& name, const std::string& width);

// ---- members

namespace member {

inline int& vocabulary(LanguageModelConfig& m) { return m.vocabulary; }
inline int& d_model(LanguageModelConfig& m) { return m.layer.d_model; }
inline int& d_ff(LanguageModelConfig& m) { return m.layer.d_ff; }
inline int& n_layers(LanguageModelConfig& m) { return m.n_layers; }
inline int& n_heads(LanguageModelConfig& m) { return m.layer.n_heads; }
inline int& max_length(LanguageModelConfig& m) { return m.max_length; }
inline double& eps(LanguageModelConfig& m) { return m.layer.eps; }
inline bool& tie_output(LanguageModelConfig& m) { return m.tie_output; }
inline std::optional<bool>& qkv_bias(LanguageModelConfig& m) { return m.decoder.qkv_bias; }
inline std::optional<bool>& out_bias(LanguageModelConfig& m) { return m.decoder.out_bias; }
inline std::optional<bool>& ffn_bias(LanguageModelConfig& m) { return m.decoder.ffn_bias; }
inline double& embedding_scale(LanguageModelConfig& m) { return m.decoder.embedding_scale; }
inline double& residual_scale(LanguageModelConfig& m) { return m.decoder.residual_scale; }
inline double& attention_scale(LanguageModelConfig& m) { return m.decoder.attention_scale; }
inline double& attention_softcap(LanguageModelConfig& m) { return m.decoder.attention_softcap; }
inline double& output_scale(LanguageModelConfig& m) { return m.decoder.output_scale; }
inline double& output_softcap(LanguageModelConfig& m) { return m.decoder.output_softcap; }
inline int& experts(LanguageModelConfig& m) { return m.decoder.experts; }
inline int& experts_chosen(LanguageModelConfig& m) { return m.decoder.experts_chosen; }

}  // namespace member

}  // namespace SEPPO_ABI
}  // namespace seppo
