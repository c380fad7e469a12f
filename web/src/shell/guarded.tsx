import { Component, type ComponentChildren } from "preact";

import { Refusal } from "../data/client";
import { Refused } from "../parts/unavailable";

/** A defect of one page is said in its place; the rest of the page goes on. */
export class Guarded extends Component<{ children: ComponentChildren }, { error?: Error }> {
  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidCatch(error: Error): void {
    console.error(error);
  }

  render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const text = `This page has a defect: ${error.message}. Please report it; other pages still work.`;
    return <Refused error={new Refusal("defect", text)} />;
  }
}
