-- SPDX-License-Identifier: MIT
-- What test_postgres asks of a server with us and of one without.
create table item (id int primary key, owner int, word text, data jsonb, at timestamptz);
insert into item select i, i * 7919 % 1000, 'word ' || i * 31 % 9973,
    jsonb_build_object('id', i, 'list', (select jsonb_agg(j) from generate_series(1, i % 9) j)),
    timestamptz '2020-01-01 00:00:00+00' + i * interval '1 minute'
    from generate_series(1, 50000) i;
create index on item (owner);
create index on item using gin (data);
create index on item (word text_pattern_ops);
analyze item;
select count(*), count(distinct word), sum(owner), max(at) from item;
select owner, count(*), string_agg(word, ',' order by id) from item group by 1 order by 1 limit 3;
select word, rank() over (partition by owner % 10 order by id desc) r from item order by r, word limit 5;
select count(*) from item a join item b on a.owner = b.owner where a.id % 50 = 0;
select count(*) from item where data @> '{"list": [1, 2, 3]}';
select md5(string_agg(data::text, '' order by id)) from item;
select md5(string_agg(word, '' order by word, id)) from item;
set work_mem = '64kB';
select count(*) from (select word, id from item order by word, id desc offset 100) t;
select count(*) from (select distinct word || owner from item) t;
reset work_mem;
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select count(*), sum(length(word)), avg(owner)::numeric(10, 4) from item;
create function thrower(n int) returns text language plpgsql as $$
begin
    if n % 3 = 0 then
        raise exception 'number %', n;
    elsif n % 3 = 1 then
        perform 1 / (n - n);
    end if;
    return 'fine';
exception
    when division_by_zero then return 'divided';
    when others then return sqlerrm;
end $$;
select md5(string_agg(thrower(i), ',' order by i)) from generate_series(1, 5000) i;
with recursive tree(n, path) as (
    select 1, array[1] union all select n * 2 + k, path || (n * 2 + k)
    from tree, generate_series(0, 1) k where n < 2000)
select count(*), sum(n), max(array_length(path, 1)) from tree;
select sum(octet_length(repeat(repeat('x', 1000), i))) from generate_series(1, 2000) i;
select regexp_replace(repeat('abc123', 2000), '([a-z]+)([0-9]+)', '\2\1', 'g') = repeat('123abc', 2000);
select count(*) from regexp_split_to_table(repeat('a,b;c', 3000), '[,;]') t;
prepare find (int) as select word from item where id = $1;
execute find (77);
execute find (7777);
begin;
savepoint one;
insert into item (id) values (1);
rollback to one;
update item set word = upper(word) where id < 1000;
select count(*) from item where word like 'WORD%';
rollback;
declare outside cursor for select 1;
begin;
declare inside cursor for select id from item order by id;
move 40000 in inside;
fetch 3 from inside;
commit;
copy (select id, word from item order by id limit 5) to stdout;
select nothing from nowhere;
select 1 / 0;
do $$ begin for i in 1 .. 300 loop
    execute format('create temp table t%s as select %s as n', i, i);
end loop; end $$;
select count(*) from pg_class where relname ~ '^t[0-9]+$';
vacuum full analyze item;
reindex table item;
select count(*) from item where word = 'word 5';
