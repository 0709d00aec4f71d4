// A list of slots says which tensor holds which rows of which parameter; reading and writing go through it.
#include "llm/weights.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>
#include <seppo/nn/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace llm {

using seppo::check;
using seppo::FormatError;
using seppo::printable;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Our names and theirs, of the parts of a path. Of several that fit, the first counts.
const Pairs kLlama{
    {"layers.norm.", "model.norm."},  {"layers.", "model.layers."},      {"embedding.", "model.embed_tokens."},
    {"output.", "lm_head."},          {".norm1.", ".input_layernorm."},  {".norm2.", ".post_attention_layernorm."},
    {".out_proj.", ".o_proj."},       {".ffn.gate.", ".mlp.gate_proj."}, {".ffn.up.", ".mlp.up_proj."},
    {".ffn.down.", ".mlp.down_proj."}};
const Pairs kGpt2{{"layers.norm.", "ln_f."},
                  {"layers.", "h."},
                  {"embedding.", "wte."},
                  {"positions.", "wpe."},
                  {".norm1.", ".ln_1."},
                  {".norm2.", ".ln_2."},
                  {".self_attn.in_proj.", ".attn.c_attn."},
                  {".self_attn.out_proj.", ".attn.c_proj."},
                  {".ffn.up.", ".mlp.c_fc."},
                  {".ffn.down.", ".mlp.c_proj."}};

std::string renamed(std::string name, const Pairs& pairs) {
  bool has_root = false;  // the beginning has been renamed
  for (const auto& [ours, theirs] : pairs) {
    const std::size_t at = name.find(ours);
    if (at == name.npos || (ours[0] != '.' && (at > 0 || has_root))) continue;
    has_root |= ours[0] != '.';
    name.replace(at, ours.size(), theirs);
  }
  return name;
}

struct Slot {
  std::string tensor;
  std::size_t offset;  // of its first value among the parameters'
  std::int64_t rows, columns;
  bool is_vector, is_transposed;

  std::vector<std::int64_t> shape() const {
    if (is_vector) return {rows};
    return is_transposed ? std::vector{columns, rows} : std::vector{rows, columns};
  }
  std::size_t size() const { return static_cast<std::size_t>(rows * columns); }
  // Where the file has the value that the parameter has at i.
  std::size_t place(std::size_t i) const {
    const auto wide = static_cast<std::size_t>(columns), high = static_cast<std::size_t>(rows);
    return is_transposed ? i % wide * high + i / wide : i;
  }
};

bool is_adapter(const std::string& name) { return name.starts_with("lora."); }

std::vector<Slot> adapter_slots(const seppo::Parameters& parameters) {
  std::vector<Slot> slots;
  for (const auto& e : parameters.entries())
    if (is_adapter(e.name)) slots.push_back({e.name, e.offset, e.shape[0], e.shape[1], false, false});
  return slots;
}

std::vector<Slot> slots_of(const HfConfig& config, const seppo::Parameters& parameters, const std::string& prefix) {
  const bool is_llama = config.shape == Shape::llama;
  std::vector<Slot> slots;
  for (const auto& e : parameters.entries()) {
    if (is_adapter(e.name)) continue;
    const bool is_vector = e.shape.rank() == 1;
    const std::int64_t rows = e.shape[0], columns = is_vector ? 1 : e.shape[1];
    if (is_llama && e.name.find(".in_proj.") != e.name.npos) {
      const std::int64_t q = config.model.layer.d_model, kv = (rows - q) / 2;
      std::size_t offset = e.offset;
      for (const auto& [part, count] : {std::pair("q", q), {"k", kv}, {"v", kv}}) {
        std::string name = renamed(e.name, kLlama);
        name.replace(name.find("in_proj"), 2, part);
        slots.push_back({name, offset, count, columns, is_vector, false});
        offset += static_cast<std::size_t>(count * columns);
      }
    } else {
      const bool is_transposed = !is_llama && !is_vector && e.name.starts_with("layers.");
      slots.push_back({is_llama ? renamed(e.name, kLlama) : prefix + renamed(e.name, kGpt2), e.offset, rows, columns,
                       is_vector, is_transposed});
    }
  }
  return slots;
}

// What the files of others hold besides.
bool is_superfluous(const std::string& name, const HfConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias") || (config.model.tie_output && name == "lm_head.weight");
}

void load(const seppo::SafeTensorsFile& file, const std::vector<Slot>& slots, seppo::Parameters& parameters) {
  const std::span<seppo::real> values = parameters.values();
  for (const Slot& slot : slots) {
    const auto found = std::ranges::find(file.tensors(), slot.tensor, &seppo::TensorInfo::name);
    check<FormatError>(found != file.tensors().end(), file.name(), ": ", slot.tensor, " is missing");
    const bool is_half = found->dtype == "BF16";
    check<FormatError>(is_half || found->dtype == "F32", file.name(), ": ", slot.tensor, " is ", found->dtype,
                       "; F32 and BF16 are read");
    check<FormatError>(found->shape == slot.shape(), file.name(), ": ", slot.tensor,
                       ": another shape than the model's");
    std::vector<std::byte> bytes(found->bytes());
    file.read(*found, bytes);
    for (std::size_t i = 0; i < slot.size(); ++i) {
      const std::byte* const from = bytes.data() + slot.place(i) * (is_half ? 2 : 4);
      std::uint32_t bits = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + (is_half ? 2 : 0), from, is_half ? 2 : 4);
      const auto value = std::bit_cast<float>(bits);
      check<FormatError>(std::isfinite(value), file.name(), ": ", slot.tensor, ": has ", value);
      values[slot.offset + i] = value;
    }
  }
}

void save(const std::filesystem::path& path, const std::vector<Slot>& slots, const seppo::Parameters& parameters) {
  std::vector<std::vector<float>> blocks;
  std::vector<seppo::TensorView> views;
  for (const Slot& slot : slots) {
    std::vector<float>& block = blocks.emplace_back(slot.size());
    for (std::size_t i = 0; i < slot.size(); ++i) {
      block[slot.place(i)] = parameters.values()[slot.offset + i];
      check<seppo::NumericError>(std::isfinite(block[slot.place(i)]), slot.tensor, ": has ", block[slot.place(i)]);
    }
    views.push_back({slot.tensor, "F32", slot.shape(), std::as_bytes(std::span(block))});
  }
  write_safetensors(path, {{"format", "pt"}}, views);
}

}  // namespace

void load_weights(const std::filesystem::path& path, const HfConfig& config, seppo::Parameters& parameters) {
  const seppo::SafeTensorsFile file(path);
  const auto has = [&](const char* name) {
    return std::ranges::find(file.tensors(), name, &seppo::TensorInfo::name) != file.tensors().end();
  };
  const std::vector<Slot> slots = slots_of(config, parameters, has("wte.weight") ? "" : "transformer.");
  std::set<std::string> known;
  for (const Slot& slot : slots) known.insert(slot.tensor);
  for (const seppo::TensorInfo& tensor : file.tensors())
    check<FormatError>(known.contains(tensor.name) || is_superfluous(tensor.name, config), file.name(), ": ",
                       printable(tensor.name), " is none of the model's tensors");
  load(file, slots, parameters);
}

void save_weights(const std::filesystem::path& file, const HfConfig& config, const seppo::Parameters& parameters) {
  save(file, slots_of(config, parameters, "transformer."), parameters);
}

void load_adapters(const std::filesystem::path& file, seppo::Parameters& parameters) {
  load(seppo::SafeTensorsFile(file), adapter_slots(parameters), parameters);
}

void save_adapters(const std::filesystem::path& file, const seppo::Parameters& parameters) {
  save(file, adapter_slots(parameters), parameters);
}

}  // namespace llm
