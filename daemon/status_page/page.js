// The status page: asks the daemon once a second and shows what has changed. Whatever comes from the
// daemon becomes text (textContent), never markup.
'use strict';

const ASK_EVERY_MS = 1000;
const ASK_AT_MOST_MS = 5000;
const HISTORY = 120;
// As proto/base/latency_buckets.h: two buckets for each factor of two from 1.024 us on.
const boundNs = (i) => 1024 * 2 ** Math.floor(i / 2) * (i % 2 ? 1.5 : 1);

const past = [];  // {reads, changes, p50, p99}, the newest last.
let before = null;   // The last status whose numbers were used.
let heardAt = 0;

// ---- Text.

// To three digits.
const three = (n) => n >= 99.95 ? Math.round(n).toString() : n.toFixed(n >= 9.995 ? 1 : 2);
function count(n) {
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (n >= size * 9.995 || (unit !== 'k' && n >= size)) return three(n / size) + ' ' + unit;
  }
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toString() : n.toFixed(1);
}
function bytes(n) {
  let unit = 0;
  while (n >= 1024 && unit < 5) n /= 1024, ++unit;
  return (unit === 0 || n >= 99.95 ? Math.round(n) : n.toFixed(1)) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit];
}
function time(ns) {
  if (ns === null) return '–';
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
    if (ns >= size) return three(ns / size) + ' ' + unit;
  }
  return Math.round(ns) + ' ns';
}
function span(ms) {
  const s = Math.round(ms / 1000);
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60) + ' s';
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}
const percent = (share) => share === null ? '–' : (share >= 0.9995 ? '100' : (share * 100).toFixed(1)) + ' %';

// ---- Elements.

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);  // Strings become text.
  return element;
}
function draw(tag, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
// `parts`: [class, share of the whole].
function bar(parts) {
  const element = make('div', 'bar');
  for (const [className, share] of parts) {
    const part = make('div', className);
    part.style.width = Math.min(100, Math.max(0, share * 100)) + '%';
    element.append(part);
  }
  return element;
}
function table(id, head, rows) {
  const line = (cells, tag) => make('tr', '', ...cells.map((cell, i) => {
    const element = make(tag, head[i][1] || '');
    element.append(cell instanceof Node ? cell : String(cell));
    return element;
  }));
  document.getElementById(id).replaceChildren(
      make('thead', '', line(head.map((column) => column[0]), 'th')),
      make('tbody', '', ...rows.map((row) => line(row, 'td'))));
}

// ---- Numbers.

const sum = (list, of) => list.reduce((all, each) => all + of(each), 0);
const add = (a, b) => b.map((n, i) => n + (a[i] || 0));
function quantile(buckets, q) {
  const all = buckets.reduce((a, b) => a + b, 0);
  if (all === 0) return null;
  let seen = 0;
  for (let i = 0; i < buckets.length; ++i) {
    if (buckets[i] > 0 && seen + buckets[i] >= q * all) {
      const from = i === 0 ? 0 : boundNs(i - 1);
      return i + 1 === buckets.length ? from : from + (boundNs(i) - from) * (q * all - seen) / buckets[i];
    }
    seen += buckets[i];
  }
  return boundNs(buckets.length - 2);
}

// What has come on a node since `was`: rates per second, by namespace too. Null: no two looks at the
// same daemon.
function since(now, was) {
  if (!now.status || !was || !was.status || now.node.incarnation !== was.node.incarnation) return null;
  const seconds = (now.status.at_ns - was.status.at_ns) / 1e9;
  if (!(seconds > 0)) return null;
  const rate = (a, b) => Math.max(0, (a - b) / seconds);
  const earlier = new Map(was.status.namespaces.map((space) => [space.namespace_id, space]));
  const spaces = new Map();
  for (const space of now.status.namespaces) {
    const old = earlier.get(space.namespace_id) || {reads: 0, changes: 0, device_reads: 0, direct_reads: 0};
    const counts = (of) => of && of.frames ? of.frames.buckets : [];
    const oldBuckets = counts(old);
    spaces.set(space.namespace_id, {
      reads: rate(space.reads, old.reads),
      changes: rate(space.changes, old.changes),
      deviceReads: rate(space.device_reads, old.device_reads),
      directReads: rate(space.direct_reads, old.direct_reads),
      frames: counts(space).map((n, i) => Math.max(0, n - (oldBuckets[i] || 0))),
    });
  }
  const operations = (status) => sum(status.cores, (core) => core.operations);
  return {operations: rate(operations(now.status), operations(was.status)), spaces};
}

const NO_SPACE = {reads: 0, changes: 0, deviceReads: 0, directReads: 0, frames: []};
function plus(a, b) {
  return {reads: a.reads + b.reads, changes: a.changes + b.changes, deviceReads: a.deviceReads + b.deviceReads,
          directReads: a.directReads + b.directReads,
          frames: a.frames.length > b.frames.length ? add(b.frames, a.frames) : add(a.frames, b.frames)};
}
const hitShare = (rates) => rates.reads > 0 ? Math.max(0, 1 - rates.deviceReads / rates.reads) : null;

// Of a namespace on all nodes that answer.
function resident(status, id) {
  const found = {dram: 0, nvm: 0};
  for (const node of status.nodes) {
    if (!node.status) continue;
    const space = node.status.namespaces.find((each) => each.namespace_id === id);
    if (!space) continue;
    found.dram += space.residence ? space.residence.memory_bytes : space.live_bytes;
    found.nvm += space.residence ? space.residence.device_bytes : 0;
  }
  return found;
}

// ---- Parts of the page.

function showHead(status) {
  const up = status.nodes.filter((node) => node.status).length;
  const health = document.getElementById('health');
  const good = up === status.nodes_expected && status.nodes.every((node) => node.status || node.node.state === 'NODE_STATE_LEFT');
  health.textContent = up + ' of ' + status.nodes_expected + ' nodes ' + (status.forming ? 'have joined' : 'up');
  health.className = 'pill ' + (good ? 'good' : 'bad');
  document.getElementById('cluster').textContent =
      'cluster ' + status.cluster_uuid + ' · epoch ' + status.epoch + ' · seen by node ' + status.asked_node;
}

function showCards(status, all, operations) {
  const nodes = status.nodes.filter((node) => node.status).map((node) => node.status);
  const used = sum(nodes, (node) => node.memory.used_bytes);
  const limit = sum(nodes, (node) => node.memory.limit_bytes);
  const devices = nodes.flatMap((node) => node.devices);
  const deviceUsed = sum(devices, (device) => device.used_bytes);
  const deviceBytes = sum(devices, (device) => device.bytes);
  const value = (text) => {
    const [number, ...unit] = text.split(' ');
    return make('div', 'value', number, make('small', '', unit.length ? ' ' + unit.join(' ') : ''));
  };
  const card = (name, main, ...more) => make('div', 'card', make('div', 'name', name), value(main), ...more);
  const note = (text) => make('div', 'more', text);
  const waiting = sum(nodes, (node) => sum(node.cores, (core) =>
      core.map_waiters + core.io_waiters + core.event_waiters + core.replies_awaiting_commit));
  document.getElementById('cards').replaceChildren(
      card('Operations per second', count(operations), note(count(all.reads) + ' reads'), note(count(all.changes) + ' changes')),
      card('Latency, median', time(quantile(all.frames, 0.5)), note('p99 ' + time(quantile(all.frames, 0.99))), note('of frames, in the daemons')),
      card('Reads from memory', percent(hitShare(all)), note(count(all.deviceReads) + '/s from devices'), note(count(all.directReads) + '/s by clients themselves')),
      card('Records', count(sum(status.namespaces, (space) => space.records)),
           note(status.namespaces.length + ' namespaces'), note(count(waiting) + ' operations wait')),
      card('Memory', bytes(used), bar([['dram', used / limit]]), note('of ' + bytes(limit))),
      deviceBytes > 0
          ? card('NVM', bytes(deviceUsed), bar([['nvm', deviceUsed / deviceBytes]]), note('of ' + bytes(deviceBytes)))
          : card('NVM', '–', note('no --nvm-dir')));
}

// `lines`: [class, key of past]. A logarithmic axis is for latencies.
function showChart(id, lines, label, logarithmic) {
  const svg = document.getElementById(id);
  const width = 560, height = 180, left = 58, right = 6, top = 12, bottom = 20;
  const values = past.flatMap((each) => lines.map((line) => each[line[1]])).filter((n) => n !== null);
  let most = Math.max(...values, logarithmic ? 1e5 : 10), least = 0;
  if (logarithmic) {
    least = 10 ** Math.floor(Math.log10(Math.max(1000, Math.min(...values, 1e4))));
    most = 10 ** Math.ceil(Math.log10(most));
  } else {
    const step = 10 ** Math.floor(Math.log10(most));
    most = Math.ceil(most / step) * step;
  }
  const x = (i) => left + (width - left - right) * (HISTORY - past.length + i) / (HISTORY - 1);
  const share = (n) => logarithmic ? Math.log(Math.max(n, least) / least) / Math.log(most / least) : n / most;
  const y = (n) => top + (height - top - bottom) * (1 - Math.min(1, share(n)));
  const parts = [];
  const marks = [];
  if (logarithmic) for (let n = least; n <= most * 1.001; n *= 10) marks.push(n);
  else for (let i = 0; i <= 4; ++i) marks.push(most * i / 4);
  for (const mark of marks) {
    parts.push(draw('line', {class: 'grid', x1: left, x2: width - right, y1: y(mark), y2: y(mark)}));
    parts.push(draw('text', {x: left - 8, y: y(mark) + 4, 'text-anchor': 'end'}, label(mark)));
  }
  parts.push(draw('text', {x: left, y: height - 4}, HISTORY + ' s ago'));
  parts.push(draw('text', {x: width - right, y: height - 4, 'text-anchor': 'end'}, 'now'));
  lines.forEach(([className, key], index) => {
    let path = '', pen = 'M', first = null, last = null;
    past.forEach((each, i) => {
      if (each[key] === null) { pen = 'M'; return; }
      path += pen + x(i).toFixed(1) + ' ' + y(each[key]).toFixed(1);
      pen = 'L';
      first = first === null ? i : first;
      last = i;
    });
    if (first === null) return;
    if (index === 0 && !logarithmic) {
      parts.push(draw('path', {class: 'area', d: path + 'L' + x(last).toFixed(1) + ' ' + y(0) + 'L' + x(first).toFixed(1) + ' ' + y(0) + 'Z'}));
    }
    parts.push(draw('path', {class: 'line ' + className, d: path}));
  });
  svg.replaceChildren(...parts);
}

const NODE_STATES = {NODE_STATE_UP: ['up', 'good'], NODE_STATE_DOWN: ['down', 'bad'], NODE_STATE_LEFT: ['left', 'warn']};

function showNodes(status, rates) {
  const head = [['Node'], ['State'], ['Host'], ['Up for', 'number'], ['Operations/s', 'number'], ['Sessions', 'number'],
                ['Waiting', 'number'], ['Memory', 'wide'], ['NVM', 'wide'], ['Durable as of', 'number']];
  const rows = status.nodes.map((entry) => {
    const node = entry.node, own = entry.status;
    let [state, mood] = NODE_STATES[node.state] || ['unknown', 'warn'];
    if (state === 'up' && !own) [state, mood] = ['silent', 'bad'];
    const shown = make('span', 'state ' + mood, state);
    if (entry.error) shown.title = entry.error;
    const start = [node.node_id, shown, node.host + ' ' + node.control_address];
    if (!own) return [...start, '–', '–', '–', '–', '–', '–', '–'];
    if (own.cores.some((core) => core.silent)) shown.textContent = 'a core is stuck', shown.className = 'state bad';
    const measure = (className, used, of) => make('div', 'measure',
        bar([[className, used / Math.max(of, 1)]]), make('span', '', bytes(used) + ' of ' + bytes(of)));
    const deviceUsed = sum(own.devices, (device) => device.used_bytes);
    const deviceBytes = sum(own.devices, (device) => device.bytes);
    const rate = rates.get(node.node_id);
    const durable = own.devices_failed ? 'a device has failed'
        : own.last_durable_at_ms > 0 ? span(Math.max(0, own.at_ms - own.last_durable_at_ms)) + ' ago' : '–';
    return [...start, span(own.uptime_ms), rate ? count(rate.operations) : '–',
            Math.max(0, ...own.cores.map((core) => core.sessions)),
            count(sum(own.cores, (core) => core.map_waiters + core.io_waiters + core.event_waiters + core.replies_awaiting_commit)),
            measure('dram', own.memory.used_bytes, own.memory.limit_bytes),
            deviceBytes > 0 ? measure('nvm', deviceUsed, deviceBytes) : '–', durable];
  });
  table('nodes', head, rows);
}

function showNamespaces(status, rates) {
  const head = [['Namespace', 'name'], ['Kind'], ['Durability'], ['Records', 'number'], ['Reads/s', 'number'], ['Changes/s', 'number'],
                ['Hits', 'number'], ['p50', 'number'], ['p99', 'number'], ['In memory, in NVM', 'wide'], ['State']];
  const rows = status.namespaces.map((space) => {
    const rate = rates.get(space.namespace_id) || NO_SPACE;
    const where = resident(status, space.namespace_id);
    const all = Math.max(where.dram + where.nvm, 1);
    const troubles = [[space.partitions_down, 'down'], [space.partitions_lost, 'lost'], [space.partitions_silent, 'silent']]
        .filter(([n]) => n > 0).map(([n, what]) => n + ' ' + what);
    const name = make('span', '', space.name);
    name.title = space.name;
    return [name, space.kind.replace('KIND_', '').toLowerCase(), space.durability || 'volatile', count(space.records),
            count(rate.reads), count(rate.changes), percent(hitShare(rate)),
            time(quantile(rate.frames, 0.5)), time(quantile(rate.frames, 0.99)),
            make('div', 'measure', bar([['dram', where.dram / all], ['nvm', where.nvm / all]]),
                 make('span', '', make('span', 'dot dram', bytes(where.dram)), make('span', 'dot nvm', bytes(where.nvm)))),
            make('span', 'state ' + (troubles.length ? 'bad' : 'good'), troubles.length ? troubles.join(', ') : 'ok')];
  });
  table('namespaces', head, rows);
}

function show(status) {
  const earlier = new Map((before ? before.nodes : []).map((node) => [node.node.node_id, node]));
  const byNode = new Map(), bySpace = new Map();
  let all = NO_SPACE, operations = 0, compared = false;
  for (const node of status.nodes) {
    const rate = since(node, earlier.get(node.node.node_id));
    if (rate === null) continue;
    compared = true;
    byNode.set(node.node.node_id, rate);
    operations += rate.operations;
    for (const [id, space] of rate.spaces) {
      bySpace.set(id, plus(bySpace.get(id) || NO_SPACE, space));
      all = plus(all, space);
    }
  }
  // The daemon keeps an answer for a moment: the same one again tells nothing new.
  if (before !== null && !compared && status.nodes.some((node) => node.status)) {
    const same = status.nodes.every((node) => {
      const was = earlier.get(node.node.node_id);
      return was && node.status && was.status && node.status.at_ns === was.status.at_ns;
    });
    if (same) return;
  }
  before = status;
  if (compared) {
    past.push({reads: all.reads, changes: all.changes, p50: quantile(all.frames, 0.5), p99: quantile(all.frames, 0.99)});
    if (past.length > HISTORY) past.shift();
  }
  showHead(status);
  showCards(status, all, operations);
  showChart('rates', [['one', 'reads'], ['two', 'changes']], count, false);
  showChart('latency', [['one', 'p50'], ['two', 'p99']], time, true);
  showNodes(status, byNode);
  showNamespaces(status, bySpace);
}

// ---- Asking.

async function ask() {
  const cancel = new AbortController();
  const late = setTimeout(() => cancel.abort(), ASK_AT_MOST_MS);
  try {
    const answer = await fetch('status.json', {cache: 'no-store', signal: cancel.signal});
    if (!answer.ok) throw new Error('HTTP ' + answer.status);
    show(await answer.json());
    heardAt = Date.now();
  } catch (error) {
    const health = document.getElementById('health');
    health.textContent = heardAt === 0 ? 'the daemon does not answer'
        : 'no answer for ' + span(Date.now() - heardAt);
    health.className = 'pill bad';
  } finally {
    clearTimeout(late);
    setTimeout(ask, ASK_EVERY_MS);
  }
}
ask();
