// Loads each FOLDER's model.gguf with llama.cpp, and compares its logits with those of expected.json.
//
// usage: node llama_cpp.mjs NODE_LLAMA_CPP FOLDER...
//
// Logits are compared by their differences from the largest of a row, as shares of the largest difference. llama.cpp
// takes all activations but SiLU from tables of half precision, and leaves Phi-3's window out.
import {readFileSync} from "node:fs";
import {basename, join} from "node:path";
import {pathToFileURL} from "node:url";

const [packageFolder, ...folders] = process.argv.slice(2);
const {getLlama} = await import(pathToFileURL(join(packageFolder, "dist", "index.js")));
const MOST = {exact: 1e-5, table: 3e-3};
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});

async function logits(path, ids) {
  const model = await llama.loadModel({modelPath: path});
  const context = await model.createContext({
    contextSize: 64, threads: 1, flashAttention: false,
    experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32",
  });
  const wanted = {generateNext: {logits: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}};
  const found = await context.getSequence().controlledEvaluate(ids.map((id) => [id, wanted]));
  await model.dispose();
  return found.map((one) => one.next.logits);
}

function difference(row, expected) {
  const most = Math.max(...row.values());
  const expectedMost = Math.max(...expected);
  const range = expectedMost - Math.min(...expected);
  const errors = expected.map((logit, id) => Math.abs(row.get(id) - most - (logit - expectedMost)));
  return Math.max(...errors) / range;
}

// Whether llama.cpp computes what follows so many tokens as the model does.
const isComparable = (config, row) => config.model_type !== "phi3" || row < (config.sliding_window ?? Infinity);

let failures = 0;
for (const folder of folders) {
  const name = basename(folder);
  try {
    const expected = JSON.parse(readFileSync(join(folder, "expected.json")));
    const config = JSON.parse(readFileSync(join(folder, "config.json")));
    const rows = await logits(join(folder, "model.gguf"), expected.ids);
    const differences = expected.rows.map((row, i) => difference(rows[row], expected.logits[i]));
    const worst = Math.max(...differences.filter((_, i) => isComparable(config, expected.rows[i])));
    const isRight = worst <= (config.hidden_act === "silu" ? MOST.exact : MOST.table);
    if (!isRight) ++failures;
    console.log(`${name}: ${worst.toExponential(1)}${isRight ? "" : " is too far"}`);
  } catch (error) {
    ++failures;
    console.log(`${name}: ${error.message}`);
  }
}
console.log(`${folders.length} models, ${failures} not as expected`);
process.exit(failures > 0 ? 1 : 0);
