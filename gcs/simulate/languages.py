"""What the pages of the synthetic web are written in: words of many languages, and charsets.

A *voice* is a language in a charset. It keeps a small stock of sentences made of the language's words, drawn
by a seed, so that the same seed says the same in every process. The stock is kept as it goes over the wire,
one character per byte (latin-1), so that a page is put together as text and turned into bytes in one step.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

_WESTERN = ("utf-8", "iso-8859-1", "windows-1252", "iso-8859-15")
_CENTRAL = ("utf-8", "iso-8859-2", "windows-1250")

CHARSETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "en": ("utf-8", "iso-8859-1", "windows-1252"),
        "de": _WESTERN,
        "fr": _WESTERN,
        "es": _WESTERN,
        "it": _WESTERN,
        "pt": _WESTERN,
        "nl": _WESTERN,
        "sv": _WESTERN,
        "fi": _WESTERN,
        "pl": _CENTRAL,
        "cs": _CENTRAL,
        "hu": _CENTRAL,
        "tr": ("utf-8", "iso-8859-9", "windows-1254"),
        "ru": ("utf-8", "windows-1251", "koi8-r", "iso-8859-5"),
        "uk": ("utf-8", "windows-1251", "koi8-u"),
        "bg": ("utf-8", "windows-1251", "iso-8859-5"),
        "el": ("utf-8", "iso-8859-7", "windows-1253"),
        "he": ("utf-8", "windows-1255"),
        "ar": ("utf-8", "windows-1256"),
        "th": ("utf-8", "windows-874"),
        "ja": ("utf-8", "shift_jis", "euc-jp"),
        "ko": ("utf-8", "euc-kr"),
        "zh": ("utf-8", "gb18030"),
        "zh-Hant": ("utf-8", "big5"),
    }
)
"""The charsets that pages of a language come in, the most usual first."""

HOMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "en": "uk",
        "sv": "se",
        "cs": "cz",
        "uk": "ua",
        "el": "gr",
        "he": "il",
        "ar": "eg",
        "ja": "jp",
        "ko": "kr",
        "zh": "cn",
        "zh-Hant": "tw",
    }
)
"""The domain of a country where a language is at home, where it is not the language's own code."""

# Python knows some of the web's charsets by other names.
_CODECS = {"windows-874": "cp874"}
_UNSPACED = frozenset({"th", "ja", "zh", "zh-Hant"})
_FULL_STOPS = {"ja": "。", "zh": "。", "zh-Hant": "。", "th": " "}

WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        language: tuple(words.split())
        for language, words in {
            "en": "the river was quiet and people walked along it every morning before work while "
            "children asked their teachers about ships that had once come from far away with "
            "letters spices paper some of which are still kept in our library where anyone may "
            "read them without paying",
            "de": "der Fluss war still und die Leute gingen jeden Morgen vor der Arbeit an ihm entlang "
            "während Kinder ihre Lehrer nach Schiffen fragten welche früher aus großer Ferne "
            "Briefe Gewürze und schöne Bücher brachten von denen einige noch heute in unserer "
            "Bibliothek für alle zugänglich sind",
            "fr": "la rivière était calme et les gens marchaient chaque matin avant le travail pendant "
            "que des élèves demandaient à leurs maîtres où étaient passés ces navires venus de "
            "très loin avec du papier des lettres et des épices dont plusieurs sont gardées dans "
            "notre bibliothèque",
            "es": "el río estaba tranquilo y la gente caminaba cada mañana antes del trabajo mientras "
            "los niños preguntaban a sus maestros por los barcos que habían llegado desde muy "
            "lejos con cartas papel y especias algunas de las cuales todavía están guardadas en "
            "nuestra biblioteca señor",
            "it": "il fiume era tranquillo e la gente camminava ogni mattina prima del lavoro mentre i "
            "bambini chiedevano ai loro maestri delle navi che erano arrivate da molto lontano "
            "con lettere carta e spezie alcune delle quali sono ancora conservate nella nostra "
            "biblioteca perché città",
            "pt": "o rio estava calmo e as pessoas caminhavam todas as manhãs antes do trabalho "
            "enquanto as crianças perguntavam aos professores pelos navios que tinham chegado de "
            "muito longe com cartas papel e especiarias algumas das quais ainda estão na nossa "
            "biblioteca não também então",
            "nl": "de rivier was stil en de mensen liepen er elke ochtend voor het werk langs terwijl "
            "kinderen hun leraren vroegen naar schepen die vroeger van heel ver waren gekomen met "
            "brieven papier en kruiden waarvan sommige nog steeds in onze bibliotheek worden "
            "bewaard geïnteresseerd één",
            "sv": "floden var stilla och människor gick längs den varje morgon före arbetet medan "
            "barnen frågade sina lärare om skeppen som en gång hade kommit långt bortifrån med "
            "brev papper och kryddor av vilka några fortfarande finns kvar i vårt bibliotek där "
            "alla får läsa dem",
            "fi": "joki oli hiljainen ja ihmiset kävelivät sen vartta joka aamu ennen työtä kun lapset "
            "kysyivät opettajiltaan laivoista jotka olivat kerran tulleet hyvin kaukaa mukanaan "
            "kirjeitä paperia ja mausteita joista osa on yhä kirjastossamme jossa kaikki saavat "
            "lukea niitä",
            "pl": "rzeka była spokojna a ludzie szli wzdłuż niej każdego ranka przed pracą gdy dzieci "
            "pytały swoich nauczycieli o statki które kiedyś przypłynęły z bardzo daleka z "
            "listami papierem i przyprawami a część z nich wciąż jest przechowywana w naszej "
            "bibliotece źródło",
            "cs": "řeka byla klidná a lidé chodili podél ní každé ráno před prací zatímco děti se ptaly "
            "svých učitelů na lodě které kdysi připluly z velké dálky s dopisy papírem a kořením "
            "z nichž některé jsou dodnes uloženy v naší knihovně kde je může číst každý žluťoučký "
            "kůň",
            "hu": "a folyó csendes volt és az emberek minden reggel munka előtt végigsétáltak mellette "
            "miközben a gyerekek tanáraikat kérdezték azokról a hajókról amelyek egykor messziről "
            "jöttek levelekkel papírral és fűszerekkel ezek közül néhányat ma is őriznek "
            "könyvtárunkban",
            "tr": "nehir sakindi ve insanlar her sabah işten önce kıyısında yürürken çocuklar "
            "öğretmenlerine bir zamanlar çok uzaklardan mektuplar kağıt ve baharat getiren "
            "gemileri soruyordu bunların bazıları hâlâ herkesin okuyabileceği kütüphanemizde "
            "saklanıyor güzel şehir ığdır",
            "ru": "река была тихой и люди каждое утро гуляли вдоль неё перед работой а дети спрашивали "
            "своих учителей о кораблях которые когда то приходили издалека с письмами бумагой и "
            "пряностями некоторые из них до сих пор хранятся в нашей библиотеке где их может "
            "читать каждый",
            "uk": "річка була тиха і люди щоранку гуляли вздовж неї перед роботою а діти питали своїх "
            "вчителів про кораблі які колись приходили здалеку з листами папером і прянощами "
            "деякі з них досі зберігаються в нашій бібліотеці де їх може читати кожен їжак є",
            "bg": "реката беше тиха и хората се разхождаха край нея всяка сутрин преди работа докато "
            "децата питаха учителите си за корабите които някога са идвали отдалеч с писма хартия "
            "и подправки някои от тях още се пазят в нашата библиотека където всеки може да ги "
            "чете",
            "el": "το ποτάμι ήταν ήσυχο και οι άνθρωποι περπατούσαν κάθε πρωί πριν από τη δουλειά ενώ "
            "τα παιδιά ρωτούσαν τους δασκάλους τους για τα πλοία που κάποτε είχαν έρθει από πολύ "
            "μακριά με γράμματα χαρτί και μπαχαρικά μερικά φυλάσσονται ακόμη στη βιβλιοθήκη μας",
            "he": "הנהר היה שקט ואנשים הלכו לאורכו בכל בוקר לפני העבודה בזמן שילדים שאלו את המורים שלהם "
            "על האוניות שהגיעו פעם ממרחקים עם מכתבים נייר ותבלינים חלקם עדיין שמורים בספרייה שלנו "
            "וכל אחד יכול לקרוא אותם שם בלי לשלם",
            "ar": "كان النهر هادئا وكان الناس يمشون بجانبه كل صباح قبل العمل بينما سأل الأطفال معلميهم "
            "عن السفن التي جاءت ذات يوم من بعيد مع الرسائل والورق والتوابل ولا يزال بعضها محفوظا "
            "في مكتبتنا حيث يمكن لأي شخص أن يقرأها",
            "th": "แม่น้ำ เงียบ สงบ และ ผู้คน เดิน ทุกเช้า ก่อน ทำงาน ขณะที่ "
            "เด็ก ถาม ครู เกี่ยวกับ เรือ ที่ เคย มา จาก ที่ไกล พร้อม "
            "จดหมาย กระดาษ เครื่องเทศ บางส่วน ยัง เก็บ ไว้ ใน ห้องสมุด "
            "ของเรา ทุกคน อ่าน ได้",
            "ja": "川は 静かで 人々は 毎朝 仕事の前に 歩いて いました 子どもたちは 先生に "
            "遠くから 来た 船 について 尋ね 手紙 と 紙 や 香辛料 の 一部は 今でも "
            "私たちの 図書館に あります 誰でも 読む ことが できます",
            "ko": "강은 조용했고 사람들은 매일 아침 일하기 전에 강을 따라 걸었으며 아이들은 "
            "선생님에게 멀리서 온 배에 대해 물었다 편지 종이 향신료 가운데 일부는 "
            "아직도 우리 도서관에 있으며 누구나 읽을 수 있다",
            "zh": "河水 很 安静 人们 每天 早上 上班 之前 沿着 它 散步 孩子们 向 老师 询问 "
            "那些 从 远方 来的 船只 它们 带来 信件 纸张 和 香料 其中 一些 仍然 保存 "
            "在 我们的 图书馆 任何 人 都 可以 阅读",
            "zh-Hant": "河水 很 安靜 人們 每天 早上 上班 之前 沿著 它 散步 孩子們 向 老師 詢問 "
            "那些 從 遠方 來的 船隻 它們 帶來 信件 紙張 和 香料 其中 一些 仍然 保存 "
            "在 我們的 圖書館 任何 人 都 可以 閱讀",
        }.items()
    }
)


def draws(label: str, count: int) -> tuple[int, ...]:
    """Numbers below 2**32 that a label stands for, the same in every process and on every machine."""
    return struct.unpack(f"<{count}I", hashlib.shake_128(label.encode()).digest(4 * count))


@dataclass(frozen=True, slots=True)
class Voice:
    """A language in a charset, with what it has to say; `wire` texts hold one character per byte."""

    language: str
    charset: str
    codec: str
    phrases: tuple[str, ...]
    wire_phrases: tuple[str, ...]
    wire_ends: tuple[str, ...]
    """The phrases as a link ends with them, after its address."""
    wire_paragraphs: tuple[str, ...]

    def wire(self, text: str) -> str:
        """A text as its bytes look."""
        return text.encode(self.codec, "xmlcharrefreplace").decode("latin-1")


PARAGRAPHS: Final = 48
PHRASES: Final = 64
_PARAGRAPH_BYTES: Final = 240


@lru_cache(maxsize=128)
def voice(seed: int, language: str, charset: str) -> Voice:
    """The voice of a language in a charset; they are few and small, so each is made once."""
    codec = _CODECS.get(charset, charset)
    stock = draws(f"{seed}/voice/{language}", PHRASES * 4 + PARAGRAPHS)
    phrases = tuple(_phrases(language, stock))
    wire = tuple(phrase.encode(codec).decode("latin-1") for phrase in phrases)
    stop = _FULL_STOPS.get(language, ". ").encode(codec).decode("latin-1")
    between = "" if language in _UNSPACED else " "
    paragraphs = tuple(_paragraph(wire, stop, between, draw) for draw in stock[-PARAGRAPHS:])
    ends = tuple(f'" title="{phrase}">{phrase}</a> ' for phrase in wire)
    return Voice(language, charset, codec, phrases, wire, ends, paragraphs)


def _phrases(language: str, stock: tuple[int, ...]) -> Iterator[str]:
    """Short runs of words as they follow each other in the list, which is nearly how they are spoken."""
    words, between = WORDS[language], "" if language in _UNSPACED else " "
    for number in range(PHRASES):
        start = stock[4 * number] % len(words)
        length = 2 + stock[4 * number + 1] % 3
        yield between.join((words + words)[start : start + length])


def _paragraph(phrases: tuple[str, ...], stop: str, between: str, draw: int) -> str:
    wanted = _PARAGRAPH_BYTES * (2 + draw % 4) // 2
    said: list[str] = []
    size, number = 0, draw
    while size < wanted:
        number = (number * 1_103_515_245 + 12_345) & 0xFFFFFFFF
        phrase = phrases[(number >> 8) % PHRASES]
        end = between if number & 3 else stop
        said += phrase, end
        size += len(phrase) + len(end)
    return "".join(said).strip(" ")
