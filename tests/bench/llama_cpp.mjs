// Writes tokens with llama.cpp, always the most probable, and says how many in a second.
//
// usage: node llama_cpp.mjs NODE_LLAMA_CPP FILE.gguf THREADS TOKENS
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const [packageFolder, path, threads, tokens] = process.argv.slice(2);
const {getLlama} = await import(pathToFileURL(join(packageFolder, "dist", "index.js")));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: Number(threads)});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: Number(tokens) + 8, threads: Number(threads)});
const writing = context.getSequence().evaluate(model.tokenize("A"), {temperature: 0, yieldEogToken: true});
await writing.next();  // reads the prompt
const begin = performance.now();
for (let i = 0; i < Number(tokens); ++i) await writing.next();
console.log(`${(1000 * tokens / (performance.now() - begin)).toFixed(2)} tokens a second`);
process.exit(0);
