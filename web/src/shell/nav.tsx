import { PAGES } from "../pages";
import { absent } from "../data/runs";
import { TITLES } from "../parts/titles";
import { link, page } from "../state/url";

const GROUPS = ["Summary", "Time", "Memory", "Cluster"] as const;

export function Nav() {
  return (
    <nav aria-label="Tools">
      {GROUPS.map((group) => (
        <section key={group}>
          <h2>{group}</h2>
          <ul>
            {PAGES.filter((each) => each.group === group).map((each) => (
              <li key={each.name}>
                <a
                  href={link({ page: each.name })}
                  aria-current={each.name === page.value ? "page" : undefined}
                  data-absent={absent.value[each.name] ? "" : undefined}
                  title={absent.value[each.name]?.reason}
                >
                  {TITLES[each.name]}
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </nav>
  );
}
