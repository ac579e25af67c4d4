// The names of the users of jobs. Lists have their numbers, which are shown until the manager has said the names.

import { call } from "./api.js";
import { throttled } from "./dom.js";

/** For how many users the manager is asked at once. */
const MOST = 256;
/** How long a user without a name stays a number before the manager is asked again, in milliseconds. */
const AGAIN = 60000;

export class Users {
  #jobs;
  #asked = new Map();

  constructor(jobs) {
    this.#jobs = jobs;
    jobs.addEventListener("change", throttled(250, () => this.#ask()));
  }

  /** Asks again for all who have no name yet, as another client. */
  again() {
    this.#asked.clear();
  }

  async #ask() {
    const now = Date.now();
    const due = (userid) => now - (this.#asked.get(userid) ?? -Infinity) > AGAIN;
    const userids = this.#jobs.unnamed().filter(due).slice(0, MOST);
    if (userids.length === 0) return;
    for (const userid of userids) this.#asked.set(userid, now);
    try {
      const { users } = await call("job-list.users", { userids });
      this.#jobs.name(users);
    } catch {
      // They stay numbers.
    }
  }
}
