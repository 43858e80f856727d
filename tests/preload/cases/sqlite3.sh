# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# sqlite3, the command: schema, bulk insert, joins, window functions, vacuum, dump.

test_sqlite3_work() {
    need sqlite3
    cat >"$T/stdin" <<'SQL'
create table item (id integer primary key, owner integer, word text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into item select i, i * 7919 % 1000, 'word ' || (i * 31 % 9973), i / 7.0 from n;
create table owner (id integer primary key, name text unique);
insert into owner select distinct owner, 'owner ' || owner from item;
create index item_owner on item (owner);
create index item_word on item (word, weight);
select count(*), sum(id), max(word) from item;
select owner.name, count(*), round(avg(weight), 3) from item join owner on owner.id = item.owner
 group by 1 order by 2 desc, 1 limit 5;
select word, rank() over (partition by owner order by weight desc) from item
 order by 2 desc, 1 limit 5;
update item set word = word || upper(word) where id % 3 = 0;
delete from item where id % 11 = 0;
select count(*), group_concat(substr(word, 1, 6), '')
 from (select word from item order by id limit 40);
begin; delete from owner; rollback;
select count(*) from owner;
vacuum;
pragma integrity_check;
select json_group_array(json_object('id', id, 'word', word)) from (select * from item limit 20);
select nothing from nowhere;
.dump owner
SQL
    same_status 1 sqlite3 work.db
    cmp "$T/plain.work/work.db" "$T/ours.work/work.db" || fail "the data bases differ"
}
