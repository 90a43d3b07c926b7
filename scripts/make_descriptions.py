"""Writes models/data/descriptions.json: short descriptions of invented people,
places, dishes and days, for models/lab_train.tfm to learn. The text is ours; each
description is a walk through sentences with the words in braces drawn from
lists, the same every time.

Usage: python3 scripts/make_descriptions.py
"""

import json
import pathlib
import random
import re

COUNT = 240
OUT = pathlib.Path(__file__).resolve().parent.parent / "models" / "data" / "descriptions.json"

WORDS = {
    "she": ["Jide", "Amara", "Zola", "Nala", "Imani", "Sade", "Thandi", "Lindiwe"],
    "he": ["Kofi", "Tariq", "Baraka", "Sipho", "Yusuf", "Tunde", "Hamid", "Obi"],
    "place": ["Marula Bend", "Port Azela", "Tamba", "Old Kesso", "Lake Ombi", "Red Hill", "Sandari",
              "the Blue Quarter"],
    "animal": ["goat", "heron", "donkey", "mongoose", "weaver bird", "tortoise", "brown dog", "camel"],
    "drink": ["well", "spring", "stream", "tea stall", "water seller"],
    "dish": ["bean stew", "millet porridge", "lamb with apricots", "fried plantain", "fish in palm leaves",
             "pumpkin soup", "flat bread", "rice with tomatoes"],
    "spice": ["ginger", "pepper", "cumin", "lemon", "garlic", "cardamom", "salt", "mint"],
    "craft": ["baskets", "drums", "copper bowls", "blankets", "clay pots", "fishing nets", "carved doors",
              "leather shoes"],
    "colour": ["red", "indigo", "yellow", "white", "green", "black"],
    "tool": ["needle", "small knife", "wooden wheel", "hammer", "comb", "thin blade"],
    "time": ["At dawn", "In the evening", "On market day", "After the rain", "At noon", "In the dry season"],
    "river": ["the Sava", "the long river", "the Ombi", "the brown river"],
    "weather": ["hot", "windy", "cool", "dusty", "quiet", "bright"],
    "music": ["drum", "flute", "harp", "thumb piano", "horn"],
    "number": ["two", "three", "four", "five", "seven", "nine"],
    "relative": ["grandmother", "uncle", "sister", "father", "neighbour", "teacher"],
    "fruit": ["mangoes", "dates", "oranges", "figs", "melons", "coconuts"],
}

TOPICS = [
    [  # a walk
        ["{she} was thirsty so she went looking for a {drink}.",
         "{she} was hungry so she went looking for some {dish}.",
         "{he} was tired so he went looking for a tree with shade."],
        ["The road from {place} was {weather} and nobody else was walking on it.",
         "It had been a {weather} day in {place}, and the dust lay on every leaf."],
        ["A {animal} crossed the path and looked back once, as if it knew the way.",
         "On a wall sat a {animal} that did not move when people passed."],
        ["An old woman sold {fruit} beside the gate and asked for {number} coins.",
         "Two children carried a basket of {fruit} and sang the same line again and again."],
        ["\"Follow the {colour} stones,\" said a boy, \"and you will hear the water before you see it.\"",
         "\"It is not far,\" said a man with a {tool} in his hand, \"only past the {colour} house.\""],
        ["{time} there was a light over the hill, and behind it the roofs of {place}.",
         "Behind the last houses the ground fell away to {river}, slow and wide."],
        ["The water was cold and tasted of stone.",
         "In the end everyone sat down together and shared {dish}."],
    ],
    [  # a dish
        ["The {dish} of {place} is cooked over a slow fire with {spice} and {spice2}.",
         "In {place} every family has its own way to make {dish}."],
        ["First the {spice} is ground between two stones until the whole kitchen smells of it.",
         "The pot is older than the house, and {she} says that it remembers every meal."],
        ["It takes {number} hours, and nobody is allowed to lift the lid.",
         "After {number} hours the sauce is thick and dark, and the fire is left to die."],
        ["Some people add {fruit}, which makes it sweet; others would never do so.",
         "On feast days it is served with {fruit} and a little {spice2}."],
        ["{he} learned it from his {relative}, who never wrote anything down.",
         "{she} learned it from her {relative}, who measured with her hands."],
        ["Guests eat first, then the children, then the cook.",
         "It is eaten with the right hand from one large {colour} bowl."],
    ],
    [  # a craft
        ["The people of {place} are known for their {craft}.",
         "Nobody makes {craft} like {he} of {place}."],
        ["The work begins {number} weeks before the market, when the material is still wet.",
         "He works with a {tool} that belonged to his {relative}."],
        ["The pattern shows {river} with {number} boats, and a {animal} for good luck.",
         "A {colour} line runs through each piece, because a thing without a mistake belongs to nobody."],
        ["Visitors ask how long it takes, and {he} answers that it takes as long as it takes.",
         "A good piece needs {number} days, a bad one needs only a morning."],
        ["{time} the workshop is {weather}, and a {music} is played in the next yard.",
         "Children sit at the door and learn by watching, for that is how the craft is taught."],
        ["Many of the {craft} go to Port Azela by boat and come back as salt and cloth.",
         "What is not sold is given away, so that the maker may begin again."],
    ],
    [  # a festival
        ["Once a year the {music} players of {place} meet at {river}.",
         "The festival of lamps begins when the first {animal} comes down to {river}."],
        ["{time} the streets are washed and {colour} cloth is hung from the windows.",
         "For {number} days nobody works, and doors stay open through the night."],
        ["{she} plays the {music} so softly that people stop talking to hear it.",
         "{he} beats the great drum, and the smaller drums answer from the other bank."],
        ["There is {dish} for everyone, and {fruit} from the gardens of {place}.",
         "Long tables stand in the square, full of {dish} and {fruit}."],
        ["The oldest dancer wears a {colour} mask with the face of a {animal}.",
         "Dancers in {colour} coats turn until the dust rises to their knees."],
        ["When the last lamp goes out, the year is said to have turned.",
         "In the morning only the ashes and the songs are left."],
    ],
    [  # a place
        ["{place} lies where {river} bends to the north.",
         "Nobody knows how old {place} is, but its wall has stood for {number} hundred years."],
        ["Its market is full of {craft}, {fruit} and loud voices.",
         "Its houses are {colour}, and their doors are lower than a tall man."],
        ["{time} fishermen pull their boats over the sand and count the catch.",
         "{time} the smell of {dish} comes from every second door."],
        ["A {animal} sleeps on the steps of the school, and the pupils walk around it.",
         "The school has {number} rooms and a bell that was once a ship's bell."],
        ["{she} keeps the key of the tower and shows it to those who ask politely.",
         "{he} mends roofs and tells travellers where the road is bad."],
        ["From the hill one sees {river} shine like a {tool} in the grass.",
         "Those who leave come back when they are old, or send their children."],
    ],
    [  # an animal
        ["A {animal} of {place} became famous because it would not be sold.",
         "{she} had a {animal} that followed her to school."],
        ["It ate {fruit} from the hand, but only {number} at a time.",
         "It was afraid of {colour} cloth and of the sound of the {music}."],
        ["One {weather} night it ran down to {river} and made so much noise that the village woke.",
         "When the water of {river} rose, it was the first to climb the hill, and the people followed it."],
        ["{he} carved its picture on a door, with a {tool} and much patience.",
         "The {relative} of {she} wrote a song about it, which is still sung."],
        ["Since then nobody in {place} chases a {animal} away.",
         "Since then its name is given to clever children."],
    ],
    [  # a journey
        ["{he} set out from {place} with {number} {fruit2} and a blanket.",
         "{he} wanted to see the sea before he was as old as his {relative}."],
        ["The first day was {weather}, and he met nobody but a {animal}.",
         "On the third day he crossed {river} in a boat full of {craft}."],
        ["At night he told stories to strangers, and they gave him {dish}.",
         "At night it was {weather} and the stars stood close together."],
        ["In {place2} a woman named {she} asked him what he was looking for.",
         "In {place2} he mended a {music} and was paid with a {tool}."],
        ["\"I will know it when I hear it,\" he said, and she laughed.",
         "\"The sea is only a river that has stopped,\" said {she}."],
        ["When he saw the water at last, he sat down and said nothing for a long time.",
         "He stayed for {number} years and came home with a {colour} coat."],
    ],
    [  # a lesson
        ["The {relative} of {he} used to say that a {tool} is only as good as the hand that holds it.",
         "In {place} people say that {river} never asks the way."],
        ["{she} did not understand this until she had made {number} {craft} and broken them all.",
         "{she} thought about it while she cut {fruit} for the market."],
        ["Work that is done in a {weather} hour, she found, needs no second hour.",
         "What is learned slowly, she found, is not forgotten."],
        ["{time} she sat beside {river} and counted the boats: {number} going down and none coming back.",
         "{time} a {animal} came and drank, and went away without hurry."],
        ["Now she teaches others, and begins every lesson with {dish}.",
         "Now she tells the same story to her pupils, who do not believe it yet."],
    ],
]


def fill(sentence, draw, chosen):
    """Puts words into the braces; a name stays the same through a text, `{spice2}`
    is another one than `{spice}`."""
    def word(match):
        key = match[1]
        kind = key.rstrip("2")
        if key in chosen:
            return chosen[key]
        taken = {chosen.get(kind), chosen.get(kind + "2")}
        value = draw.choice([w for w in WORDS[kind] if w not in taken])
        if kind in ("she", "he", "place", "river", "spice", "craft"):
            chosen[key] = value
        return value
    text = re.sub(r"\{(\w+)\}", word, sentence)
    return text[0].upper() + text[1:]


def description(number, draw):
    chosen = {}
    topics = [TOPICS[number % len(TOPICS)], draw.choice(TOPICS)]
    sentences = [fill(draw.choice(slot), draw, chosen) for topic in topics for slot in topic]
    return {"title": chosen.get("place") or chosen.get("she") or chosen.get("he") or "River",
            "description": " ".join(sentences)}


def main():
    draw = random.Random(2026)
    items = [description(number, draw) for number in range(COUNT)]
    OUT.write_text("[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
                   + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
