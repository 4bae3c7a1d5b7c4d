# SPDX-License-Identifier: Apache-2.0
"""`check` of Go, Java, Rust, C, C++, Ruby and Bash: each line that ends with a mark is planted, and what is said of it
stands behind the mark. Without these lines nothing is said."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lib
from lib import Sandbox

MARK = "  //! "
FILES: dict[str, dict[str, str]] = {
    "Go": {
        "go.mod": "module example.org/app\n",
        "store/store.go": """package store
import "sync"
type Store struct {
    sync.Mutex
    items map[string]int
}
type Box struct {
    Store *Store
    Name  string
}
type Keeper interface { Keep(n int) error }
func New(name string, sizes ...int) (*Box, error) { return &Box{Name: name}, nil }
func (b *Box) Put(key string, n int) { b.Store.items[key] = n; b.Store.Lock() }
func (s *Store) Clean() { s.Anything() }
""",
        "main.go": """package main
import (
    "fmt"
    "example.org/app/store"
    "example.org/app/stoer"  //! there is no module example.org/app/stoer, nearest: example.org/app/store
    kept "example.org/other/kept"
)
type number int
var hook = helper
func helper(a int, b string) int { return a }
func each[T any](all []T, f func(T)) { for _, one := range all { f(one) } }
func two() (int, string) { return 1, "" }
func main() {
    box, err := store.New("x", 1, 2)
    box.Put("a", 1)
    box.Put("a")  //! box.Put() needs 2 arguments, 1 given
    box.Putt("a", 1)  //! box.Putt: attribute Put exists, Putt does not (store/store.go:13)
    fmt.Println(box.Name, err, helper(two()), number(1), hook(1, ""), kept.Any(1))
    fmt.Println(box.Title)  //! box.Title: Box has no attribute Title
    fmt.Println(helpr(1, ""))  //! unknown name helpr, nearest: helper (main.go:
    fmt.Println(helper(1))  //! helper() needs 2 arguments, 1 given
    store.Open("x")  //! store.Open: package example.org/app/store has no attribute Open
    each([]int{1}, func(n int) { fmt.Print(n) })
    var keeper store.Keeper
    keeper.Keep(1)
    keeper.Keeps(1)  //! keeper.Keeps: attribute Keep exists, Keeps does not (store/store.go:11)
}
"""},
    "Java": {
        "src/org/example/app/User.java": """package org.example.app;
public class User implements Runnable {
  private final String email;
  public User(String email) { this.email = email; }
  public String email() { return email; }
  public void send(String text, int... times) { run(); }
  public void run() { }
  public enum Kind { ONE, TWO; Kind next() { return values()[0]; } }
}
""",
        "src/org/example/app/Item.java": """package org.example.app;
import static org.example.other.Tools.tool;
class Item {
  int count;
  void add(int n) { count += n; }
  void all() {
    add(tool(1));
    add();  //! add() needs 1 argument, 0 given
    addAll(1);  //! unknown name addAll, nearest: add (src/org/example/app/Item.java:5)
    this.total = 1;  //! this.total: Item has no attribute total
  }
}
""",
        "src/org/example/app/Main.java": """package org.example.app;
import java.util.*;
import org.example.app.User;
import org.example.app.Usr;  //! there is no module org.example.app.Usr, nearest: org.example.app.User
public class Main extends Base {
  record Point(int x, int y) { int sum() { return x() + y; } }
  interface Shape { int area(); default int twice() { return area() * 2; } }
  int main(Set<String> names) {
    User user = new User("a");
    user.send("x");
    user.send("x", 1, 2);
    user.getEmail();  //! user.getEmail: attribute email exists, getEmail does not
    new User();  //! new User() needs 1 argument, 0 given
    var point = new Point(1, 2);
    point.sum(3);  //! point.sum() takes at most 0 arguments, 1 given
    Shape shape = () -> names.size();
    inherited(user.hashCode(), point.x(), shape.twice(), User.Kind.valueOf("ONE"));
    shape.thrice();  //! shape.thrice: attribute twice exists, thrice does not
    class Local {
      List<String> item;
      void fill() { item.isEmpty(); }
    }
    Item item = new Item();
    new Item() { void more() { add(2); } }.add(1);
    return point.y();
  }
}
"""},
    "Rust": {
        "Cargo.toml": "[package]\nname = \"app\"\n",
        "src/lib.rs": """pub mod store;
pub mod stoer;  //! there is no module stoer, nearest: store
use crate::store::{Store, Kind};
use crate::store::Stores;  //! there is no crate::store::Stores, nearest: Store
use std::fmt;
macro_rules! maker { ($name:ident) => { fn $name() {} } }
maker!(made);
#[derive(Clone, Default)]
struct Point { x: i32, y: i32 }
impl Point { fn moved(&self, by: i32) -> Point { Point { x: self.x + by, y: self.y } } }
impl fmt::Display for Point { fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result { write!(f, "{}", self.x) } }
fn helper(a: i32, f: impl Fn(i32) -> i32) -> i32 { f(a) }
fn one(store: &Store) -> i32 {
    let point = Point { x: 1, y: 2 };
    made();
    store.count() + point.moved(1).clone().x + helper(1, |n| n) + Store::new("x").size as i32
        + point.to_string().len() as i32 + Kind::of(1).value()
        + point.z  //! point.z: Point has no attribute z
        + point.moved(1, 2).x  //! point.moved() takes at most 1 argument, 2 given
        + helpr(1)  //! unknown name helpr, nearest: helper (src/lib.rs:
        + helper(1)  //! helper() needs 2 arguments, 1 given
        + store.counts()  //! store.counts: attribute count exists, counts does not (src/store.rs:4)
        + Store::open("x")  //! Store.open: Store has no attribute open
}
""",
        "src/store.rs": """pub struct Store { pub size: usize }
impl Store {
    pub fn new(name: &str) -> Self { Store { size: name.len() } }
    pub fn count(&self) -> i32 { self.size as i32 }
}
pub enum Kind { One(i32), Two }
impl Kind {
    pub fn of(n: i32) -> Kind { if n == 1 { Kind::One(n) } else { Kind::Two } }
    pub fn value(&self) -> i32 { 1 }
}
"""},
    "C": {
        "lib/list.h": """#ifndef LIST_H
#define LIST_H
struct list { int n; struct list *next; };
typedef struct { struct list *first; int (*hook)(int); } lists;
struct list *list_add(struct list *list, int n);
int list_log(const char *text, ...);
int list_any();
#define FIELDS(X) X(one) X(two)
#define FIELD(name) int name;
struct made { FIELDS(FIELD) };
struct more { int a; MORE_FIELDS; };
#define MAKE(name) int name##_size(struct list *l)
MAKE(list);
#endif
""",
        "other.c": """#include "lib/list.h"
#include "lib/lists.h"  //! there is no module lib/lists.h, nearest: lib/list.h
int other(void) { return list_log("x"); }
""",
        "main.c": """#include "lib/list.h"
static int twice(int n) { return n * 2; }
static int (*pointer)(int) = twice;
#define SQUARE(x) ((x) * (x))
int use(lists *all)
{
    struct list item = {.n = 1}, many[3];
    int (*local)(int) = twice;
    list_add(&item, twice(1))->next->n = list_size(&item) + pointer(1) + local(2) + SQUARE(3);
    struct made made = {1, 2};
    struct more more = {1};
    made.one = more.anything;
    list_log("%d", 1, all->hook(2), many[1].n, list_any(1, 2));
    list_push(&item, 1);  //! unknown name list_push, nearest: list_
    list_add(&item);  //! list_add() needs 2 arguments, 1 given
    twice(1, 2);  //! twice() takes at most 1 argument, 2 given
    item.nxt = 0;  //! item.nxt: attribute next exists, nxt does not (lib/list.h:3)
    return all->first->previous != 0;  //! all->first.previous: list has no attribute previous
    return all->first->next->n;
}
"""},
    "C++": {
        "shape.hpp": """#pragma once
namespace shapes {
class Shape {
public:
    explicit Shape(int n = 1);
    virtual ~Shape() = default;
    int area() const { return size(2); }
    template <class T> T as(T x) { return x; }
protected:
    int size(int n, int m = 1) const;
    int n_ = 0;
};
int area_of(const Shape &shape);
}
""",
        "main.cpp": """#include "shape.hpp"
using namespace shapes;
class Square : public Shape {
public:
    int twice() {
        return size(1) + area() + n_ + this->size(1, 2)
            + this->sizes(1)  //! this.sizes: attribute size exists, sizes does not (shape.hpp:10)
            + areas()  //! unknown name areas, nearest: area (shape.hpp:7)
            ;
    }
};
int use(Shape &shape, Square *square)
{
    auto add = [](int a) { return a; };
    return shape.area() + square->twice() + square->area() + area_of(shape) + add(1) + shape.as<int>(2)
        + square->thrice()  //! square.thrice: attribute twice exists, thrice does not (main.cpp:
        + shape.area(1)  //! shape.area() takes at most 0 arguments, 1 given
        + area_off(shape)  //! unknown name area_off, nearest: area_of (shape.hpp:13)
        ;
}
"""},
    "Ruby": {
        "lib/user.rb": """require 'set'
class User
  attr_reader :email
  def initialize(email, age = 1, *rest, admin: false)
    @email = email
    notify(age)
  end
  def notify(times)
    [1, 2].each { |n| puts n, format_one(n) }
    tap { helper(1) } if respond_to?(:helper)
    yield times if block_given?
  end
  def self.make(*all) = new(*all)
  private def format_one(n) = n.to_s
end
class Ghost
  def method_missing(name, *all) = name
end
""",
        "main.rb": """require_relative 'lib/user'
require_relative 'lib/usr'  //! there is no module lib/usr, nearest: lib/user
class Keeper
  include Comparable
  def initialize(name) = @name = name
  def keep(one, two = 2)
    user = User.new("a", 1, admin: true)
    user.email
    user.getEmail  //! user.getEmail: attribute email exists, getEmail does not (lib/user.rb:
    User.new  //! User.new() needs 1 argument, 0 given
    user.notify(1, 2)  //! user.notify() takes at most 1 argument, 2 given
    Ghost.new.anything(1)
    keep(one) { |x| x }
    kept(one)  //! unknown name kept, nearest: keep (main.rb:
    keep(1, 2, 3)  //! keep() takes at most 2 arguments, 3 given
    instance_exec(1) { anything_else(1) }
  end
end
"""},
    "Bash": {
        "lib/log.sh": "log() { echo \"$1\"; }\n",
        "main.sh": """. ./lib/log.sh
source "$(dirname "$0")/lib/log.sh"
source "$(dirname "$0")/lib/logs.sh"  //! there is no module ./lib/logs.sh, nearest: ./lib/log
if [ -f ./other.sh ]; then . ./other.sh; fi
[ -f ./more.sh ] && . ./more.sh
. "$HOME/.profile"
. /etc/anything.sh
log text | unheard_of_program
"""},
}


def need_grammars() -> None:
    lib.need("grammars", os.path.exists(os.path.join(lib.BUILD, "context-parser")), "this build has no grammars")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    need_grammars()
    made = Sandbox("root")
    yield made
    made.close()


@pytest.fixture(scope="module")
def found(box: Sandbox) -> dict[str, Any]:
    """With and without the plants: the rows by path."""
    rows: dict[str, Any] = {}
    for kind in ("planted", "plain"):
        for name, files in FILES.items():
            for path, text in files.items():
                lines = [line.partition(MARK)[0] for line in text.split("\n") if kind == "planted" or MARK not in line]
                box.make_file(f"{kind}/{name}/{path}", "\n".join(lines))
        top = os.path.join(box.folder, kind)
        done = box.cli("check", "--dir", top, "--json", top, "--timeout", "600", timeout=10 * lib.PATIENCE)
        assert done.returncode == int(kind == "planted"), (done.stdout, done.stderr)
        rows[kind] = {row["path"]: row for row in json.loads(done.stdout)["files"]}
    return rows


@pytest.mark.parametrize("language", sorted(FILES))
def test_what_is_planted_is_found_and_nothing_else(found: dict[str, Any], language: str) -> None:
    for path, text in FILES[language].items():
        name = f"{language}/{path}"
        if name not in found["plain"]:
            continue  # go.mod
        assert found["plain"][name]["findings"] == [] and found["plain"][name]["known"] > 0, found["plain"][name]
        wanted = {n + 1: line.partition(MARK)[2] for n, line in enumerate(text.split("\n")) if MARK in line}
        said: dict[int, str] = {}
        for one in found["planted"][name]["findings"]:
            near = one.get("nearest", {})
            place = f" ({near['path'].partition('/')[2]}:{near['line']})" if "path" in near else ""
            shown = "" if " exists, " in one["message"] or not near else f", nearest: {near['name']}"
            said[one["line"]] = one["message"] + shown + place
        assert sorted(said) == sorted(wanted), (path, said)
        for line, start in wanted.items():
            assert said[line].startswith(start), (path, line, said[line])


def test_a_change_in_such_a_language_is_looked_up_too(box: Sandbox) -> None:
    """Control: the same change without the invention."""
    box.make_file("changed/main.c", "static int one(void)\n{\n    return 1;\n}\n")
    for name, extra, errors in (("bad", "int two(void)\n{\n    return none();\n}\n", 1),
                                ("good", "int two(void)\n{\n    return one();\n}\n", 0)):
        code = f"text = open('main.c').read()\nopen('main.c', 'w').write(text + {extra!r})"
        project = os.path.join(box.folder, "changed")
        assert box.exec(code, session=name, options=["--project", project])["status"] == "ok"
        evidence = json.loads(box.cli("verify", name, "--test", "true", "--json", timeout=4 * lib.PATIENCE).stdout)
        box.destroy(name)
        assert [row["message"] for row in evidence["grounding"]["findings"]] == ["unknown name none"] * errors
        assert not evidence["grounding"]["not_checked"]


def test_strangers_files_end_in_time(box: Sandbox, tmp_path: Path) -> None:
    """Whatever the nesting, the loops of headers and of bases."""
    texts = {"deep.go": "package a\nvar x = " + "(" * 5000 + "1" + ")" * 5000, "deep.java": "{" * 9000,
             "deep.rs": "fn f() { " + "{" * 9000, "deep.c": "int x = " + "(" * 9000 + "1" + ")" * 9000 + ";",
             "deep.rb": "x = " + "[" * 9000, "loop.c": '#include "loop.h"\nint f(void) { return g_of_none(1); }\n',
             "loop.h": '#include "loop.h"\n#include "loop.c"\n#define A(x) x ## x ## x ## x ## x ## x\n',
             "paste.c": "#define P(a,b,c) " + "a##b##c##" * 40 + "a\nint f(void) { return " + "a" * 200 + "(1); }\n",
             "Loop.java": "class Loop extends Loop { void f() { g(); this.h(); } }\n",
             "loop.rb": "class A < A\n  def f = g(1)\nend\n", "loop.rs": "use self::*; use crate::*; trait A: A {}\n",
             "embedded.go": "package a\ntype A struct { B }\ntype B struct { A }\nfunc f(a A) { a.x() }\n"}
    for name, text in texts.items():
        box.make_file(f"bomb/{name}", text)
    top = os.path.join(box.folder, "bomb")
    done = box.cli("check", "--dir", top, "--json", "--timeout", "600", top, timeout=10 * lib.PATIENCE)
    assert done.returncode == 1, done.stderr
    rows = {row["path"]: row for row in json.loads(done.stdout)["files"]}
    assert sorted(rows) == sorted(texts)
    assert all("error" in rows[name] for name in ("deep.go", "deep.java", "deep.rs", "deep.rb")), rows
    assert not any("error" in rows[name] for name in ("loop.c", "Loop.java", "loop.rb", "loop.rs", "embedded.go"))
