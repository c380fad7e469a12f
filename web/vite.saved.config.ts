import { defineConfig } from "vite";

// The script that stands in a saved file before the page's own.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../src/stepscope/serve/static",
    emptyOutDir: false,
    rolldownOptions: { input: "saved/main.ts", output: { format: "iife", entryFileNames: "saved.js" } },
  },
});
