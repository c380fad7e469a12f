import { useEffect } from "preact/hooks";

import { address, useAnswer } from "../data/client";
import type { Doubt, Profile } from "../data/made/types";
import { chosen, lost, notice, refresh, runs } from "../data/runs";
import { PAGES } from "../pages";
import { Quality } from "../parts/quality";
import { Absent, Refused } from "../parts/unavailable";
import { page } from "../state/url";
import { Bar } from "./bar";
import { Drawer } from "./drawer";
import { Guarded } from "./guarded";
import { Help, useKeys } from "./keys";
import { Nav } from "./nav";

export function App() {
  useEffect(() => void refresh(), []);
  useKeys();
  const shown = PAGES.find((each) => each.name === page.value) ?? PAGES[0]!;
  useEffect(() => {
    document.title = `${shown.title} · stepscope`;
    if (shown.name !== page.value) notice.value = `There is no page "${page.value}" here.`;
  }, [shown, page.value]);
  return (
    <>
      <a class="skip" href="#content" onClick={toContent}>
        Skip to the content
      </a>
      <Bar />
      <div class="body">
        <Nav />
        <main id="content" tabIndex={-1}>
          {notice.value && (
            <p class="notice" role="status">
              {notice.value} <button onClick={() => (notice.value = null)}>Close</button>
            </p>
          )}
          <Content page={shown} />
        </main>
        <Drawer />
      </div>
      <Help />
    </>
  );
}

function toContent(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function Content({ page }: { page: (typeof PAGES)[number] }) {
  if (lost.value) return <Refused error={lost.value} />;
  if (!runs.value) return null;
  if (runs.value.empty) return <Absent what="the newest run" why={runs.value.empty} />;
  const run = chosen();
  if (!run) return <Refusals />;
  // What is shown of a run belongs to its files as they are now.
  return <Run key={`${run.id} ${run.version}`} page={page} />;
}

function Run({ page }: { page: (typeof PAGES)[number] }) {
  const answer = useAnswer<{ profile: Profile; quality: Doubt[] }>(address("profile"));
  const View = page.view;
  return (
    <>
      {answer.state === "ready" && <Quality doubts={answer.value.quality} />}
      <h1>{page.title}</h1>
      <Guarded key={page.name}>
        <View />
      </Guarded>
    </>
  );
}

function Refusals() {
  return (
    <section class="panel">
      <h2>No run can be read</h2>
      <ul>
        {runs.value?.refused.map((each) => (
          <li key={each.name}>
            <b>{each.name}</b>: {each.reason}
          </li>
        ))}
      </ul>
    </section>
  );
}
