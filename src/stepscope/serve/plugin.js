// TensorBoard's entry module. Its frame has a <base> that breaks links within a page,
// so the frame goes to the very page that `stepscope serve` shows.
export function render() {
  location.replace(new URL("./index.html", import.meta.url).href);
}
