# SPDX-License-Identifier: Apache-2.0
"""Random programs of objects in the midst of what they do, most of which no pickle can hold.

A piece is a code that makes something and an expression that looks at it and moves it on. # stands for the piece's
number, @ for a random number of its own. Of modules that are not there nothing is chosen.
"""

import random
from collections.abc import Collection

# module that it needs: pieces
PIECES: dict[str, list[tuple[str, str]]] = {
    "sys": [
        ("g# = (n * n for n in range(@, @ + 99)); next(g#)", "next(g#), next(g#)"),
        ("def maker#(n=@):\n    def count():\n        nonlocal n\n        n += 3\n        return n\n    return count\n"
         "c# = maker#(); c#()", "c#(), c#.__closure__[0].cell_contents"),
        ("def talk#():\n    heard = []\n    while True:\n        heard.append((yield list(heard)))\n"
         "t# = talk#(); next(t#); t#.send(@)", "t#.send('x')"),
        ("async def wait#():\n    total = @\n    while True:\n        total += await Ask#()\n"
         "class Ask#:\n    def __await__(self):\n        return (yield 'asked')\nw# = wait#(); w#.send(None)",
         "w#.send(5), w#.cr_frame.f_locals['total']"),
        ("l# = [@]; l#.append(l#); d# = {'l': l#, 'at': iter(l#)}; next(d#['at'])", "next(d#['at']) is l#, l#[1] is "
         "l#"),
        ("try:\n    1 // 0\nexcept ZeroDivisionError as error:\n    e# = error\n    n# = @",
         "type(e#).__name__, e#.__traceback__.tb_frame.f_code.co_name, e#.__traceback__.tb_lineno"),
        ("s# = set(range(@, @ + 500, 7)); i# = iter(s#); p# = [next(i#) for _ in range(9)]",
         "[next(i#) for _ in range(5)], sorted(p#)"),
        ("r# = reversed({str(n): n for n in range(@ % 50 + 20)}.items()); next(r#)", "next(r#), next(r#)"),
        ("z# = zip(range(@, 10 ** 9), map(str, range(50)), enumerate('abcdefghijkl')); next(z#)", "next(z#)"),
        ("m# = memoryview(bytearray(range(256)) * 40).cast('I')[@ % 99:]", "m#[3], m#.nbytes, hash_(m#.tobytes())"),
        ("class Slots#:\n    __slots__ = ('a', '__weakref__')\no# = Slots#(); o#.a = @\n"
         "def bump#(o=o#):\n    o.a += 1\n    return o.a", "bump#(), o#.a"),
        ("b# = bytearray(b'%d,' % @ * (@ * 40))", "b#.append(7), len(b#), b#[:9], sum(b#)"),
    ],
    "itertools": [
        ("import itertools; a#, b# = itertools.tee(iter(range(@, @ + 50))); next(a#)", "next(a#), next(b#)"),
        ("import itertools; y# = itertools.cycle([@, 'b', 3]); next(y#)", "[next(y#) for _ in range(4)]"),
        ("import itertools; q# = itertools.groupby(sorted(n % 7 for n in range(@ + 40))); next(q#)",
         "(lambda k: (k[0], len(list(k[1]))))(next(q#))"),
        ("import itertools; u# = itertools.permutations(range(6)); [next(u#) for _ in range(@ % 90)]", "next(u#)"),
        ("import itertools, operator\nv# = itertools.accumulate(itertools.count(@), operator.xor); next(v#)",
         "next(v#), next(v#)"),
    ],
    "heapq": [("import heapq; h# = heapq.merge([1, 5, @ + 9], [2, 6], range(0, 99, 4)); next(h#)",
               "[next(h#) for _ in range(4)]")],
    "collections": [("import collections; q# = collections.deque(range(@), 30); i# = iter(q#); next(i#, None)",
                     "next(i#, None), len(q#)"),
                    ("import collections; o# = collections.OrderedDict((n, n) for n in range(@ + 5)); i# = iter(o#)",
                     "next(i#), o#.move_to_end(2) if len(o#) < 0 else None, next(i#)")],
    "functools": [("import functools\n@@functools.lru_cache(8)\ndef f#(n): return n * @\n[f#(n % 5) for n in "
                   "range(20)]",
                   "f#(3), f#(77), tuple(f#.cache_info())")],
    "re": [("import re; m# = re.finditer('[a-z]+([0-9])', 'ab1 cd2 ef3 gh4 ' * 9); next(m#)",
            "[next(m#).group(0, 1) for _ in range(2)]"),
           ("import re; k# = re.compile('(a|b)*c').scanner('abc aac bbc' * 3); k#.search()", "k#.search().span()")],
    "zlib": [("import zlib; z# = zlib.compressobj(@ % 9 + 1); p# = z#.compress(bytes(range(256)) * @)",
              "hash_(p# + z#.copy().flush()), z#.compress(b'more') and 0"),
             ("import zlib; w# = zlib.compress(b'abc%d' % @ * 5000); z# = zlib.decompressobj(); p# = "
              "z#.decompress(w#, 999)",
              "hash_(z#.decompress(z#.unconsumed_tail, 500)), z#.eof")],
    "bz2": [("import bz2; z# = bz2.BZ2Compressor(1); p# = z#.compress(b'abc%d' % @ * 300)",
             "p#, z#.compress(b'x' * 9), hash_(z#.flush()) if p# is None else 1"),
            ("import bz2; z# = bz2.BZ2Decompressor(); p# = z#.decompress(bz2.compress(b'%d' % @ * 9999), 100)",
             "hash_(z#.decompress(b'', 777)), z#.needs_input")],
    "lzma": [("import lzma; z# = lzma.LZMADecompressor(); p# = z#.decompress(lzma.compress(b'%d' % @ * 9999), 100)",
              "hash_(z#.decompress(b'', 777)), z#.needs_input")],
    "hashlib": [("import hashlib; h# = [hashlib.new(n, b'%d' % @) for n in ('sha256', 'md5', 'sha3_256', 'blake2b')]",
                 "[h.update(b'x') or h.hexdigest() for h in h#]")],
    "hmac": [("import hmac; h# = hmac.new(b'key', b'%d' % @, 'sha512')", "h#.update(b'y'), h#.hexdigest()")],
    "sqlite3": [("import sqlite3; b# = sqlite3.connect(':memory:'); b#.execute('create table t(x, y)')\n"
                 "b#.executemany('insert into t values (?, ?)', [(n, str(n * @)) for n in range(300)])\n"
                 "b#.create_function('twice', 1, lambda n: n * 2)\nr# = b#.execute('select twice(x), y from t'); "
                 "next(r#)",
                 "next(r#), b#.total_changes, b#.execute('select sum(x), max(y) from t').fetchone(), "
                 "b#.in_transaction")],
    "threading": [("import threading; k# = threading.Lock(); k#.acquire(); r# = threading.RLock(); r#.acquire()\n"
                   "s# = threading.Semaphore(@); s#.acquire()", "k#.locked(), r#.release(), s#._value, r#.acquire()"),
                  ("import queue; q# = queue.SimpleQueue(); [q#.put(n) for n in range(@)]", "q#.get(), q#.qsize()")],
    "contextlib": [("import contextlib; x# = contextlib.ExitStack(); k# = []; x#.callback(k#.append, @)",
                    "len(k#), x#.pop_all().close(), k#")],
    "contextvars": [("import contextvars; v# = contextvars.ContextVar('v#'); x# = contextvars.copy_context()\n"
                     "x#.run(v#.set, @)", "x#[v#], x#.run(lambda: v#.set(v#.get() + 1)) is None, x#[v#]")],
    "weakref": [("import weakref\nclass W#: pass\nw# = W#(); d# = weakref.WeakValueDictionary(a=w#); w#.n = @\n"
                 "f# = weakref.finalize(w#, print)", "d#['a'] is w#, f#.alive, weakref.getweakrefcount(w#)")],
    "io": [("import io; t# = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b'line %d\\n' % @ * 500))); t#.readline()",
            "t#.readline(), t#.buffer.tell()"),
           ("open('f#', 'w').write('row %d\\n' % @ * 99); f# = open('f#'); f#.readline()", "f#.readline(), "
            "f#.read(30)")],
    "csv": [("import csv, io; r# = csv.reader(io.StringIO('1,\"a\\nb\",%d\\n' % @ * 20)); next(r#)", "next(r#), "
             "r#.line_num")],
    "codecs": [("import codecs; d# = codecs.getincrementaldecoder('utf-8')(); p# = d#.decode('é€'.encode()[:4])",
                "p#, d#.decode(b'\\xac'[:0]), d#.getstate()")],
    "xml.etree.ElementTree": [
        ("import xml.etree.ElementTree as E#\np# = E#.XMLPullParser(['start', 'end']); p#.feed('<a><b n=\"%d\"/><c>' "
         "% @)\n"
         "r# = p#.read_events(); next(r#)", "next(r#)[1].attrib, p#.feed('<d/>'), [e[1].tag for e in r#]")],
    "pyexpat": [("import xml.parsers.expat as X#; p# = X#.ParserCreate(); k# = []; p#.StartElementHandler = "
                 "lambda n, a: k#.append((n, a))\np#.Parse('<a x=\"%d\"><b>' % @)",
                 "p#.Parse('<c/>'), k#, p#.CurrentByteIndex")],
    "decimal": [("import decimal; c# = decimal.Context(prec=@ % 40 + 5); v# = c#.divide(1, 7)",
                 "v#, c#.multiply(v#, v#), c#.flags[decimal.Inexact]")],
    "zipfile": [("import io, zipfile; b# = io.BytesIO(); z# = zipfile.ZipFile(b#, 'w', 8)\n"
                 "z#.writestr('a', b'%d' % @ * 999); z#.close(); z# = zipfile.ZipFile(b#); f# = z#.open('a'); "
                 "f#.read(5)",
                 "f#.read(9), z#.namelist()")],
    "tarfile": [("import io, tarfile; b# = io.BytesIO(); t# = tarfile.open(fileobj=b#, mode='w:gz')\n"
                 "i# = tarfile.TarInfo('m'); i#.size = @; t#.addfile(i#, io.BytesIO(bytes(@)))", "t#.getnames(), "
                 "t#.offset")],
    "tokenize": [("import io, tokenize; t# = tokenize.generate_tokens(io.StringIO('a = %d + b\\n' % @ * 5).readline)\n"
                  "next(t#)", "next(t#).string, next(t#).string")],
    "struct": [("import struct; u# = struct.iter_unpack('<HB', bytes(range(99))[:@ % 20 * 3 + 9]); "
                "next(u#)", "next(u#)")],
    "ctypes": [("import ctypes; a# = (ctypes.c_int * 50)(*range(@, @ + 50)); p# = ctypes.cast(a#, ctypes.POINTER("
                "ctypes.c_int))\nk# = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + @)",
                "p#[7], k#(4), a#[:3]")],
    "random": [("import random; r# = random.Random(@); r#.gauss(0, 1)", "r#.random(), r#.gauss(0, 1), "
                "r#.sample(range(99), 4)")],
    "difflib": [("import difflib; d# = difflib.ndiff(['a\\n', 'b%d\\n' % @, 'c\\n'], ['a\\n', 'x\\n', 'c\\n']); "
                 "next(d#)",
                 "next(d#), next(d#)")],
    "logging": [("import io, logging; s# = io.StringIO(); g# = logging.Logger('l#'); "
                 "g#.addHandler(logging.StreamHandler(s#))\n"
                 "g#.warning('first %d', @)", "g#.error('next'), s#.getvalue()")],
    "graphlib": [("import graphlib; g# = graphlib.TopologicalSorter({'c': 'ab', 'b': 'a'}); g#.prepare(); "
                  "g#.get_ready()",
                  "g#.done('a'), g#.get_ready()")],
    "numpy": [
        ("import numpy; r# = numpy.random.Generator(numpy.random.PCG64(@)); r#.random(99)", "r#.random(3).tolist(), "
         "r#.integers(9, size=4).tolist()"),
        ("import numpy; r# = numpy.random.RandomState(@); r#.randn(5)", "r#.randn(3).tolist(), "
         "hash_(r#.get_state()[1].tobytes())"),
        ("import numpy; a# = numpy.arange(@ * 1000.0).reshape(-1, 10); v# = a#[::3, ::-2]",
         "a#.__setitem__((3, 9), -1), hash_(v#.tobytes()), v#[1, 0], v#.base is not None"),
        ("import numpy; i# = numpy.nditer([numpy.arange(60).reshape(3, 4, 5), None], flags=['external_loop'], "
         "order='F')\n"
         "next(i#)", "i#.iterindex, i#.operands[0].sum()"),
        ("import numpy; m# = numpy.ma.array(range(99), mask=[n % 5 == @ % 5 for n in range(99)]); f# = m#.flat; "
         "next(f#)",
         "m#.sum(), next(f#), hash_(m#.mask.tobytes())"),
        ("import numpy; s# = numpy.zeros(50, [('a', 'i4'), ('b', 'f8', 3), ('c', 'U5')]); s#['a'] = @\n"
         "o# = numpy.array([s#, {'k': s#}, (n for n in range(@, 99))], dtype=object)",
         "hash_(s#.tobytes()), o#[0] is s#, next(o#[2])"),
        ("import numpy; u# = numpy.vectorize(lambda n: n * @); b# = numpy.broadcast([[1], [2]], [3, 4, 5]); next(b#)",
         "u#([1, 2]).tolist(), next(b#), b#.index"),
    ],
    "pandas": [
        ("import pandas; d# = pandas.DataFrame({'a': range(90), 'b': [str(n % @) for n in range(90)]}); i# = "
         "d#.itertuples()\n"
         "next(i#)", "next(i#), hash_(d#.to_csv().encode())"),
        ("import pandas; d# = pandas.DataFrame({'k': [n % 7 for n in range(70)], 'v': range(@, @ + 70)})\n"
         "g# = iter(d#.groupby('k')); next(g#)", "(lambda p: (int(p[0]), int(p[1].v.sum())))(next(g#))"),
        ("import io, pandas; t# = pandas.read_csv(io.StringIO('a,b\\n' + '1,%d\\n' % @ * 400), chunksize=50); next(t#)",
         "int(next(t#).b.sum()), t#._currow"),
        ("import pandas; x# = pandas.Index(['k%d' % n for n in range(@, @ + 400)]); x#.get_loc('k%d' % (@ + 5))",
         "int(x#.get_loc('k%d' % (@ + 99))), x#.is_unique"),
        ("import pandas; s# = pandas.Series(range(99), index=pandas.date_range('2020', periods=99)); w# = "
         "s#.rolling(@ % 9 + 2)\n"
         "e# = s#.ewm(span=5)", "float(w#.mean().sum()), float(e#.mean().iloc[-1])"),
        ("import pandas; c# = pandas.Categorical([str(n % 5) for n in range(@ + 9)]); m# = c#.codes",
         "hash_(m#.tobytes()), list(c#.categories)"),
    ],
    "matplotlib": [("import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as P#\n"
                    "f#, x# = P#.subplots(figsize=(2, 2)); l#, = x#.plot(range(@)); f#.canvas.draw()",
                    "l#.set_ydata(range(@, 0, -1)), f#.canvas.draw(), hash_(bytes(f#.canvas.buffer_rgba()))")],
    "lxml": [("import io; from lxml import etree as E#; r# = E#.fromstring('<a>' + '<b n=\"%d\"/>' % @ * 30 + '</a>')\n"
              "x# = E#.XPath('count(//b)'); i# = r#.iter('b'); next(i#)",
              "x#(r#), next(i#).attrib['n'], r#.append(E#.Element('b')), hash_(E#.tostring(r#))"),
             ("import io; from lxml import etree as E#\ni# = E#.iterparse(io.BytesIO(b'<a>' + b'<b>%d</b>' % @ * 30 "
              "+ b'</a>'))\n"
              "next(i#)", "next(i#)[1].text, next(i#)[1].tag")],
    "yaml": [("import yaml; p# = yaml.CLoader('- a: %d\\n- [x, y]\\n- {k: v}\\n' % @); p#.get_event(); p#.get_event()",
              "str(p#.get_event()), str(p#.peek_event())")],
    "PIL": [("from PIL import Image, ImageDraw; i# = Image.new('RGB', (64, 64), (@ % 256, 2, 3)); d# = "
             "ImageDraw.Draw(i#)\n"
             "d#.ellipse((5, 5, 50, @ % 40 + 12), fill='red')",
             "d#.line((0, 0, 63, @ % 64), fill='blue'), hash_(i#.tobytes()), i#.getpixel((20, 20))")],
    "lz4": [("import lz4.frame; z# = lz4.frame.LZ4FrameCompressor(); h# = z#.begin(); p# = z#.compress(b'%d' % @ * "
             "99999)",
             "hash_(h# + p# + z#.compress(b'more')), hash_(z#.flush()) and 1, z#.reset(), z#.begin() and 1")],
    "brotli": [("import brotli; z# = brotli.Compressor(); p# = z#.process(b'%d' % @ * 9999)", "hash_(p# + "
                "z#.flush())")],
    "crcmod": [("import crcmod; c# = crcmod.Crc(0x104c11db7, initCrc=@); c#.update(b'one')", "c#.update(b'two'), "
                "c#.crcValue")],
    "kiwisolver": [("import kiwisolver; s# = kiwisolver.Solver(); a#, b# = kiwisolver.Variable('a'), "
                    "kiwisolver.Variable('b')\n"
                    "s#.addConstraint(a# + b# == @); s#.addEditVariable(a#, 'strong')",
                    "s#.suggestValue(a#, 3), s#.updateVariables(), a#.value(), b#.value()")],
    "contourpy": [("import contourpy, numpy; g# = contourpy.contour_generator(z=numpy.add.outer(numpy.arange(9.0), "
                   "numpy.arange(9.0) * @ / 9))", "[hash_(line.tobytes()) for line in g#.lines(4.5)]")],
    "scipy": [
        ("import numpy, scipy.spatial; t# = scipy.spatial.cKDTree(numpy.random.RandomState(@).rand(200, 3))",
         "[x.tolist() for x in t#.query([[.5, .5, .5]], 3)], t#.size"),
        ("import numpy, scipy.sparse, scipy.sparse.linalg as L#\nm# = scipy.sparse.diags([[1.0] * 49, [float(@ + 4)] "
         "* 50], "
         "[-1, 0]).tocsc(); s# = L#.splu(m#)", "hash_(s#.solve(numpy.arange(50.0)).tobytes()), s#.nnz"),
        ("import scipy.integrate; s# = scipy.integrate.RK45(lambda t, y: -y * (@ % 5 + 1), 0, [1.0], 9); s#.step()",
         "s#.step(), s#.t, s#.y.tolist()"),
    ],
    "cryptography": [
        ("from cryptography.hazmat.primitives.ciphers import Cipher, algorithms as A#, modes as M#\n"
         "e# = Cipher(A#.AES(b'k' * 32), M#.CTR(b'n' * 16)).encryptor(); p# = e#.update(b'%d' % @)",
         "e#.update(b'more').hex(), p#.hex()")],
}
HASH = "def hash_(data):\n    import hashlib\n    return hashlib.sha256(data).hexdigest()[:16]\n"
PROBE = ("import importlib.util\ndef is_there(name):\n    try:\n        return importlib.util.find_spec(name) is not "
         "None\n"
         f"    except ImportError:\n        return False\nprint(*filter(is_there, {sorted(PIECES)!r}))")
WITH_DATA = {"numpy", "pandas", "matplotlib", "contourpy", "scipy"}


class Program:
    """A choice of pieces, always the same for a seed and modules."""

    def __init__(self, seed: int, modules: Collection[str]) -> None:
        chance = random.Random(seed)
        found = [(name, *piece) for name in sorted(modules) for piece in PIECES[name]]
        picked = chance.sample(found, chance.randint(4, 9))
        code, looks = [HASH + "kept_list = [1]; only_by_image = (n for n in kept_list)"], []
        for number, (_, piece, look) in enumerate(picked):
            numbers = str(number), str(chance.randint(3, 60))
            code.append(self.filled(piece, *numbers))
            looks.append(f"{look!r}: repr(({self.filled(look, *numbers)}))")
        self.code = "\n".join(code) + "\n"
        self.look = "import json\nprint(json.dumps({" + ",\n".join(looks) + "}))\n"
        self.template = "data" if WITH_DATA & {name for name, _, _ in picked} else "base"

    @staticmethod
    def filled(text: str, number: str, own: str) -> str:
        return text.replace("@@", "\0").replace("#", number).replace("@", own).replace("\0", "@")
