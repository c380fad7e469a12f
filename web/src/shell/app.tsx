import { Component, type ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { address, Refusal, useAnswer } from "../data/client";
import type { Doubt, Profile } from "../data/made/types";
import { chosen, forget, lost, notice, refresh, runs } from "../data/runs";
import { PAGES } from "../pages";
import { Panel } from "../parts/panel";
import { Drawer } from "../parts/details";
import { Quality } from "../parts/quality";
import { TITLES } from "../parts/titles";
import { Absent, Refused } from "../parts/unavailable";
import { narrow } from "../state/screen";
import { hosts, page } from "../state/url";
import { Bar } from "./bar";
import { Help, help, useKeys } from "./keys";
import { Nav } from "./nav";
import { Unshown } from "./runs";

export function App() {
  useEffect(() => void refresh(), []);
  useKeys();
  const shown = PAGES.find((each) => each.name === page.value) ?? PAGES[0]!;
  useEffect(() => {
    document.title = `${TITLES[shown.name]} · stepscope`;
    notice.value = shown.name === page.value ? null : `There is no page "${page.value}" here.`;
  }, [shown, page.value]);
  return (
    <>
      <a class="skip" href="#content" onClick={toContent}>Skip to the content</a>
      <Bar />
      <div class="body">
        {narrow.value || <Nav />}
        <main id="content" tabIndex={-1}>
          {notice.value && (
            <p class="notice" role="status">
              {notice.value} <button onClick={() => (notice.value = null)}>Close</button>
            </p>
          )}
          {lost.value && runs.value && (
            <p class="notice" role="status">
              {lost.value.message} This page goes on by itself as soon as it answers.
            </p>
          )}
          <Content page={shown} />
        </main>
        <Drawer />
      </div>
      {help.value && <Help />}
    </>
  );
}

function toContent(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function Content({ page }: { page: (typeof PAGES)[number] }) {
  if (!runs.value) return lost.value && <Refused error={lost.value} />;
  if (runs.value.empty) return <Absent what="the newest run" why={runs.value.empty} />;
  const run = chosen();
  if (!run)
    return (
      <Panel title="No run can be read">
        <Unshown />
      </Panel>
    );
  // What is shown of a run belongs to its files as they are now.
  return <Run key={`${run.id} ${run.version}`} page={page} />;
}

function Run({ page }: { page: (typeof PAGES)[number] }) {
  const answer = useAnswer<{ profile: Profile; quality: Doubt[] }>(address("profile"));
  const View = page.view;
  useEffect(forget, [hosts.value.join()]);
  // A run that turns out to be unreadable is not the one that is shown first.
  useEffect(() => {
    if (answer.state === "refused") void refresh();
  }, [answer.state]);
  return (
    <>
      {answer.state === "ready" && <Quality doubts={answer.value.quality} />}
      <h1>{TITLES[page.name]}</h1>
      <Guarded key={page.name}>
        <View />
      </Guarded>
    </>
  );
}

/** A defect of one page is said in its place; the rest of the page goes on. */
class Guarded extends Component<{ children: ComponentChildren }, { error?: Error }> {
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
