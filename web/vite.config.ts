import { defineConfig } from "vite";

// One build serves `/`, TensorBoard's prefix and any proxy's path: addresses are relative.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/stepscope/serve/static",
    emptyOutDir: true,
    // One script and one style sheet: a single-file report can hold both.
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: { output: { codeSplitting: false } },
  },
});
