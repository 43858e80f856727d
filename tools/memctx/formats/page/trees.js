/* SPDX-License-Identifier: MIT */
/* Trees that the graph of a memctx report draws. Node 0 is the root, which has the sum of all; a
   parent comes before its children. */
"use strict";
const trees = (() => {
  // From the parents and the nodes' own figures, computes children, levels and sums over subtrees.
  const finish = (parent, own) => {
    const count = parent.length,
      total = Float64Array.from(own);
    const children = Array.from({length: count}, () => []),
      level = new Uint16Array(count);
    for (let i = 1; i < count; i++) {
      children[parent[i]].push(i);
      level[i] = level[parent[i]] + 1;
    }
    for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
    return {parent, children, level, total};
  };

  // The inverted tree: the innermost functions stand below the root, their callers below them;
  // equal functions are merged.
  const inverted = (parents, names, own) => {
    const parent = [0],
      name = [-1],
      context = [0],
      weights = [0],
      inner = [new Map()];
    for (let i = 1; i < parents.length; i++) {
      if (!(own[i] > 0)) continue;
      let node = 0;
      for (let at = i; at > 0; at = parents[at]) {
        let next = inner[node].get(names[at]);
        if (next === undefined) {
          next = parent.length;
          inner[node].set(names[at], next);
          parent.push(node);
          name.push(names[at]);
          context.push(at);
          weights.push(0);
          inner.push(new Map());
        }
        node = next;
      }
      weights[node] += own[i];
    }
    weights[0] += Math.max(0, own[0]);
    return {...finish(parent, weights), name, context};
  };

  // The tree of changes: a node is as wide as its larger figure, before or after. `gone`: contexts
  // that exist only in the earlier state.
  const changed = (parents, before, after, gone) => {
    const parent = [...parents, ...gone.map(() => 0)];
    const from = [...before, ...gone.map((one) => one.bytes)],
      to = [...after, ...gone.map(() => 0)];
    const tree = finish(
      parent,
      from.map((bytes, i) => Math.max(0, bytes, to[i]))
    );
    return {...tree, before: finish(parent, from).total, after: finish(parent, to).total};
  };
  return {finish, inverted, changed};
})();
